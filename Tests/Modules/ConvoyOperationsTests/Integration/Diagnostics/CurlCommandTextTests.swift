import ConvoyCookies
import ConvoySecurity
import ConvoySerialization
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyDiagnostics
@testable import ConvoyOperations

/// The visible and omitted parts of a command.
@Suite struct CurlCommandTextTests {
    private func operation(_ url: String, _ change: (inout URLRequest) -> Void = { _ in }) throws -> HTTPRequestOperation {
        var request = URLRequest(url: try #require(URL(string: url)))
        change(&request)
        return HTTPRequestOperation(request: request)
    }

    @Test func `secrets are masked unless requested`() throws {
        let operation = try operation("http://ada:s3cret@h/?access_token=s3cret&own=s3cret#token=s3cret") { request in
            request.httpMethod = "POST"
            for name in ["Authorization", "Cookie", "Proxy-Authorization", "X-Own", "X-Auth-Token"] {
                request.setValue("s3cret", forHTTPHeaderField: name)
            }
            request.setValue("http://b:s3cret@h/", forHTTPHeaderField: "Referer")
            request.setValue("application/x-www-form-urlencoded", forHTTPHeaderField: "Content-Type")
            request.httpBody = Data("user=ada&password=s3cret&client_secret=s3cret".utf8)
        }
        operation.connectionConfiguration.sensitiveHeaders = ["x-own"]
        operation.connectionConfiguration.sensitiveQueryItems.insert("own")
        let command = operation.curlCommand()
        #expect(!command.contains("s3cret"), "\(command)")
        #expect(command.contains("'Authorization: ***'") && command.contains("user=ada&password=***"))
        #expect(command.contains("'http://***@h/?access_token=***&own=***#token=***'"))
        #expect(operation.curlCommand(includingSecrets: true).components(separatedBy: "s3cret").count == 13)
    }

    @Test func `secrets in JSON are masked`() throws {
        let operation = try operation("http://h/") { request in
            request.httpMethod = "POST"
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
            request.httpBody = Data(#"{"user": "ada", "n": 1.50, "inner": [{"password": {"x": "s3cret"}}]}"#.utf8)
        }
        #expect(operation.curlCommand().contains(#"{"user":"ada","n":1.50,"inner":[{"password":"***"}]}"#))
        operation.connectionConfiguration.sensitiveQueryItems = []
        #expect(operation.curlCommand().contains("s3cret"))
    }

    @Test func `a comment mentions an omitted stream and an invalid header field`() throws {
        let operation = try operation("http://h/") { request in
            request.httpMethod = "POST"
            request.httpBodyStream = InputStream(data: Data("s3cret".utf8))
            request.allHTTPHeaderFields = ["X-Bad": "a\r\nX-Injected: b"]
        }
        let command = operation.curlCommand(includingSecrets: true)
        #expect(command.hasSuffix("http://h/ # without an invalid header field; without the body, which is a stream"))
        #expect(!command.contains("Injected") && !command.contains("\n"))
    }

    @Test func `HTTP/1.0 and a path with dot segments become curl options`() throws {
        let operation = try operation("http://h/a/../b")
        for option in ["--http1.0", "--path-as-is"] { #expect(!operation.curlCommand().contains(option)) }
        operation.connectionConfiguration.maximumHTTPVersion = .http1_0
        operation.connectionConfiguration.keepsDotSegments = true
        #expect(operation.curlCommand().contains(" --http1.0 --path-as-is"), "\(operation.curlCommand())")
    }

    @Test func `connection settings become curl options`() throws {
        let operation = try operation("https://h/") { $0.timeoutInterval = 7.2 }
        var configuration = ConnectionConfiguration(usesHTTP2: false)
        configuration.securityPolicy.certificateAuthorities = .file(URL(fileURLWithPath: "/a b/ca.pem"))
        configuration.securityPolicy.pinningMode = .publicKey
        let pin = Data(repeating: 1, count: 32).base64EncodedString()
        configuration.securityPolicy.publicKeyPins = [try PublicKeyPin("sha256/\(pin)")]
        configuration.minimumTLSVersion = .tls13
        configuration.cipherSuites = ["TLS_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"]
        configuration.clientIdentity = ClientIdentity(
            certificate: URL(fileURLWithPath: "/c.pem"), key: URL(fileURLWithPath: "/k.pem"), passphrase: { "s3cret" })
        operation.connectionConfiguration = configuration
        operation.totalTimeout = 90
        let command = operation.curlCommand(includingSecrets: true)
        for words in [
            "--http1.1", "--connect-timeout 8 --speed-limit 1 --speed-time 8", "--max-time 90", "--cacert '/a b/ca.pem'",
            "--pinnedpubkey sha256//\(pin)", "--tlsv1.3", "--tls13-ciphers TLS_AES_128_GCM_SHA256",
            "--ciphers ECDHE-RSA-AES128-GCM-SHA256", "--cert /c.pem --key /k.pem",
        ] {
            #expect(command.contains(" \(words) "), "\(words) in \(command)")
        }
        #expect(!command.contains("insecure") && !command.contains("s3cret") && !command.contains("--cert-type"))
        let one = ClientIdentity(pkcs12: URL(fileURLWithPath: "/c.p12"), passphrase: { "s3cret" })
        operation.connectionConfiguration.clientIdentity = one
        #expect(operation.curlCommand().contains(" --cert-type P12 --cert /c.p12 "))
    }

    @Test func `a command trusts no server that the operation does not trust`() throws {
        let operation = try operation("https://api.example/")
        let pin = Data(repeating: 1, count: 32).base64EncodedString()
        func command(_ change: (inout SecurityPolicy) throws -> Void) rethrows -> String {
            var policy = SecurityPolicy()
            try change(&policy)
            operation.connectionConfiguration.securityPolicy = policy
            return operation.curlCommand()
        }
        func trustAnybody(_ policy: inout SecurityPolicy) {
            (policy.allowInvalidCertificates, policy.validatesDomainName) = (true, false)
        }
        #expect(command(trustAnybody).contains(" --insecure "))
        // One of the two exceptions alone does not add `--insecure`.
        #expect(!command { $0.allowInvalidCertificates = true }.contains("--insecure"))
        #expect(!command { $0.validatesDomainName = false }.contains("--insecure"))
        let pinned = try SecurityPolicy(publicKeyPins: ["sha256/\(pin)"])
        for isLax in [true, false] {
            let text = command {
                $0 = pinned
                if isLax { trustAnybody(&$0) }
            }
            #expect(text.contains(" --pinnedpubkey sha256//\(pin) ") && !text.contains("--insecure"))
            // The policy of the host takes precedence, in both directions.
            let ofHost = try command {
                if isLax { trustAnybody(&$0) }
                try $0.setPolicy(pinned, forHosts: "*.example")
            }
            #expect(ofHost.contains(" --pinnedpubkey sha256//\(pin) ") && !ofHost.contains("--insecure"))
        }
        var lax = SecurityPolicy()
        trustAnybody(&lax)
        let elsewhere = try command {
            $0 = pinned
            try $0.setPolicy(lax, forHosts: "other.example")
        }
        #expect(!elsewhere.contains("--insecure"))
        // A pinning mode without pins trusts no server, and neither does the command.
        let empty = command {
            $0.pinningMode = .publicKey
            trustAnybody(&$0)
        }
        #expect(empty.contains(" --pinnedpubkey sha256//\(Data(count: 32).base64EncodedString()) "))
        #expect(!empty.contains("--insecure"))
        // After the pins expire, they are ignored, together with the exceptions that they allowed.
        let ended = command {
            $0 = pinned
            $0.pinsExpire = .distantPast
            trustAnybody(&$0)
        }
        #expect(!ended.contains("--insecure") && !ended.contains("--pinnedpubkey"))
    }

    @Test func `pinned certificates are pinned by their keys, as a comment states`() throws {
        let operation = try operation("https://api.example/")
        let certificate = try TestCertificate.root()
        var policy = SecurityPolicy(
            pinningMode: .certificate, pinnedCertificates: [try Certificate(derData: certificate.derData)])
        policy.allowInvalidCertificates = true
        policy.validatesDomainName = false
        operation.connectionConfiguration.securityPolicy = policy
        let command = operation.curlCommand()
        let pin = certificate.publicKeyPin.dropFirst("sha256/".count)
        #expect(command.contains(" --pinnedpubkey sha256//\(pin) ") && !command.contains("--insecure"))
        #expect(command.contains("# ") && command.contains("certificates"))
    }

    @Test func `the command contains the current cookies, masked`() throws {
        let store = CookieStore()
        store.setCookies(["a=s3cret; Path=/", "b=2; Path=/elsewhere"], from: try #require(URL(string: "http://h/")))
        let operation = try operation("http://h/x")
        #expect(!operation.curlCommand(includingSecrets: true).contains("Cookie"))
        operation.cookieStore = store
        #expect(operation.curlCommand(includingSecrets: true).contains("'Cookie: a=s3cret'"))
        #expect(operation.curlCommand().contains("Cookie: ***") && !operation.curlCommand().contains("s3cret"))
        let own = try self.operation("http://h/x") { $0.setValue("own=1", forHTTPHeaderField: "Cookie") }
        own.cookieStore = store
        #expect(own.curlCommand(includingSecrets: true).contains("'Cookie: own=1'"))
        let none = try self.operation("http://h/x") { $0.httpShouldHandleCookies = false }
        none.cookieStore = store
        #expect(!none.curlCommand(includingSecrets: true).contains("Cookie"))
    }
}
