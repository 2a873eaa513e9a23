import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyObjectStorage

/// Credentials from the files of Amazon's tools, and from commands.
@Suite struct CredentialTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-credentials") }

    /// The environment, with these files.
    private func environment(
        credentials: String = "", config: String = "", profile: String? = nil
    ) throws -> [String: String] {
        var environment = ["HOME": directory.url.path]
        environment["AWS_SHARED_CREDENTIALS_FILE"] = try directory.write(Data(credentials.utf8), to: "credentials").path
        environment["AWS_CONFIG_FILE"] = try directory.write(Data(config.utf8), to: "config").path
        environment["AWS_PROFILE"] = profile
        return environment
    }

    @Test func `a profile has its own keys, region and endpoint`() throws {
        let environment = try environment(
            credentials: """
                # comment
                [default]
                aws_access_key_id = AKD
                aws_secret_access_key=a b=c/+
                [ada]
                aws_access_key_id = AKA  # the first
                aws_secret_access_key = secret#1
                aws_session_token = token
                """,
            config: """
                [default]
                region = eu-west-1
                endpoint_url = https://all.example.com
                s3 =
                    endpoint_url = https://s3.example.com
                    addressing_style = virtual
                [profile ada]
                region: none
                region = us-west-2
                services = mine
                [services mine]
                s3 =
                  endpoint_url = http://127.0.0.1:9000
                """)
        let first = try StorageProfile(environment: environment)
        #expect(first.region == "eu-west-1" && first.endpoint == "https://s3.example.com" && first.addressing == "virtual")
        #expect(
            try first.provider().credentials()
                == ObjectStorageCredentials(accessKeyID: "AKD", secretAccessKey: "a b=c/+"))
        let second = try StorageProfile("ada", environment: environment)
        #expect(second.region == "us-west-2" && second.endpoint == "http://127.0.0.1:9000")
        #expect(
            try second.provider().credentials()
                == ObjectStorageCredentials(accessKeyID: "AKA", secretAccessKey: "secret#1", sessionToken: "token"))
    }

    @Test func `the profile of the environment is the default`() throws {
        let environment = try environment(
            credentials: "[other]\naws_access_key_id=K\naws_secret_access_key=S\n", profile: "other")
        #expect(try StorageProfile(environment: environment).provider().credentials().accessKeyID == "K")
    }

    @Test func `missing files have no settings`() throws {
        let profile = try StorageProfile(environment: ["HOME": directory.url.path])
        #expect(profile.region == nil && profile.endpoint == nil)
        #expect(throws: ObjectStorageError.self) { try profile.provider() }
    }

    @Test func `a profile without usable credentials is an error that names the reason`() throws {
        let environment = try environment(config: "[profile sso]\nsso_session = corp\n[profile empty]\nregion = a\n")
        var error = #expect(throws: ObjectStorageError.self) { try StorageProfile("none", environment: environment) }
        #expect(error?.code == .noCredentials && error?.message.contains("\"none\" does not exist") == true)
        error = #expect(throws: ObjectStorageError.self) {
            try StorageProfile("sso", environment: environment).provider()
        }
        #expect(error?.message.contains("sso_session") == true)
        error = #expect(throws: ObjectStorageError.self) {
            try StorageProfile("empty", environment: environment).provider()
        }
        #expect(error?.message.contains("has no credentials") == true)
    }

    @Test(arguments: ["", "[", "[]", "=", "[a]\n=\n = b\n", "[a\nb = c", " x = y\n[a]\n  y = z", "\u{0}[a]\r\nb=c\r\n"])
    func `any file can be parsed`(_ text: String) { _ = ProfileFile.sections(of: text) }

    // MARK: Commands

    private func command(_ text: String, limit: TimeInterval = 20) -> CredentialCommand {
        CredentialCommand(text, limit: limit)
    }

    private static func document(expiration: String? = nil) -> String {
        let rest = expiration.map { ", \"Expiration\": \"\($0)\"" } ?? ""
        return "{\"Version\": 1, \"AccessKeyId\": \"K\", \"SecretAccessKey\": \"S\", \"SessionToken\": \"T\"\(rest)}"
    }

    @Test func `a command prints credentials, and runs again only when they expire`() throws {
        let log = directory.file("log")
        func script(_ expiration: String?) -> String {
            "echo run >>'\(log.path)'; printf '%s' '\(Self.document(expiration: expiration))'"
        }
        let permanent = command(script(nil))
        for _ in 0..<3 {
            #expect(
                try permanent.credentials()
                    == ObjectStorageCredentials(accessKeyID: "K", secretAccessKey: "S", sessionToken: "T"))
        }
        #expect(try String(contentsOf: log, encoding: .utf8) == "run\n")
        let later = Date(timeIntervalSinceNow: 3600).formatted(.iso8601)
        let temporary = command(script(later))
        for _ in 0..<3 { _ = try temporary.credentials() }
        #expect(try String(contentsOf: log, encoding: .utf8) == "run\nrun\n")
    }

    @Test(arguments: [
        ("exit 3", "exit status was 3"), ("kill -9 $$", "signal 9"), ("true", "as JSON"), ("echo '{}'", "as JSON"),
        ("echo '{\"Version\": 2, \"AccessKeyId\": \"K\", \"SecretAccessKey\": \"S\"}'", "version 2"),
        ("/no/such/command 2>/dev/null", "exit status was 127"), ("yes", "too long"),
        ("echo '\(document(expiration: "soon"))'", "ISO 8601"),
        ("echo '\(document(expiration: "2001-01-01T00:00:00Z"))'", "expired"),
    ])
    func `a command that fails is an error that names the reason`(_ text: String, _ reason: String) throws {
        let error = #expect(throws: ObjectStorageError.self) { try command(text).credentials() }
        #expect(error?.code == .noCredentials && error?.message.contains(reason) == true, "\(String(describing: error))")
    }

    @Test(arguments: ["exec sleep 60", "exec >&-; sleep 60"])
    func `a command that does not end is stopped`(_ text: String) throws {
        let start = MonotonicClock.now
        let error = #expect(throws: ObjectStorageError.self) { try command(text, limit: 1).credentials() }
        #expect(error?.message.contains("within 1 seconds") == true)
        #expect(MonotonicClock.now - start < 20_000_000_000)
    }
}
