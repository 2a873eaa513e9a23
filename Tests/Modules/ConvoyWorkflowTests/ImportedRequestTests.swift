import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

private let curlIsInstalled = FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")

/// Compares the requests sent by imported commands with those sent by curl.
///
/// The comparison excludes `User-Agent` and `Accept` if curl sends its own, and the fields of the connection and of
/// message encoding. JSON and forms are compared by their values, multipart bodies without their boundary, and repeated
/// fields as one field.
@Suite(.serialized) struct ImportedRequestTests {
    private struct Sent: Equatable, CustomStringConvertible {
        var target = "", fields: [String: String] = [:], body = ""

        var description: String {
            "\(target) \(fields.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }) \(body.debugDescription)"
        }

        init(_ request: RecordedRequest, isCurl: Bool = false, keeping kept: Set<String> = []) {
            target = "\(request.method) \(Self.encoded(request.target)) \(request.version)"
            let own = [
                "user-agent", "accept", "accept-encoding", "accept-language", "connection", "content-length", "expect",
                "transfer-encoding",
            ]
            for field in request.headers.fields
            where !own.contains(field.name.lowercased()) || kept.contains(field.name.lowercased()) {
                let key = field.name.lowercased()
                var value = field.value.trimmingCharacters(in: .whitespaces)
                if key == "cookie" { value = value.replacing("; ", with: ";") }
                if value.hasPrefix("Digest ") { value = "Digest" }
                fields[key] = fields[key].map { $0 + (key == "cookie" ? ";" : ", ") + value } ?? value
            }
            body = String(decoding: request.body, as: Unicode.ASCII.self)
            let type = fields["content-type"] ?? ""
            if let boundary = type.range(of: "boundary=").map({ String(type[$0.upperBound...]) }) {
                (fields["content-type"], body) = ("multipart", request.text.replacing(boundary, with: "B"))
            } else if type.hasPrefix("application/json"),
                let json = try? JSON(parsing: request.body, rejectsDuplicateKeys: true)
            {
                body = json.description
            } else if type.hasPrefix("application/x-www-form-urlencoded") {
                body = request.text.replacing("+", with: " ").removingPercentEncoding ?? request.text
            } else {
                body = request.body.map { "\(Unicode.Scalar($0))" }.joined()
            }
        }

        /// Returns a target with percent-encoded bytes where a URL requires them, with digits in one case.
        private static func encoded(_ target: String) -> String {
            var text = ""
            for byte in target.utf8 {
                let isPlain = byte > 0x20 && byte < 0x7F && !"\"<>\\^`{|}[]".utf8.contains(byte)
                text += isPlain ? String(Unicode.Scalar(byte)) : String(format: "%%%02X", byte)
            }
            return text.split(separator: "%" as Character, omittingEmptySubsequences: false).enumerated()
                .map { $0.offset == 0 ? "\($0.element)" : $0.element.prefix(2).uppercased() + $0.element.dropFirst(2) }
                .joined(separator: "%")
        }
    }

    private static let environment = [
        "TOKEN": "tok-0123456789", "PASS": "p$w\"", "WORD": "word", "PROXY": "http://127.0.0.1:1", "PATH": "/usr/bin:/bin",
    ]

    private let server: TestServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
        server.route("/*", .text("ok"))
        server.route(nil, "*", .text("ok"))
        server.route(nil, "/digest") { request in
            request.headers["Authorization"] == nil
                ? TestServer.Response(
                    status: 401, headers: ["WWW-Authenticate": "Digest realm=\"r\", nonce=\"n\", qop=\"auth\""])
                : .text("ok")
        }
        for (name, text) in [
            ("f.txt", "hi\nthere\n"), ("d.json", "{\"a\":1}"), ("line", "a=b"), ("with space", "s"), ("p.png", "png"),
            ("headers", "X-A: b"), ("jar", ""), ("config", "url = \"http://127.0.0.1/\""),
        ] {
            try directory.write(Data(text.utf8), to: name)
        }
        try directory.write(Data([0, 255, 1, 13, 10, 128]), to: "bytes")
    }

    private func command(_ text: String) -> String {
        let url = server.url.absoluteString.trimmingSuffix("/"), host = url.replacing("http://", with: "")
        return text.replacing("URL", with: url).replacing("HOST", with: host)
            .replacing("PORT", with: host.split(separator: ":" as Character).last ?? "")
            .replacing("DIR", with: directory.url.path)
    }

    /// Returns the requests sent by a run of drafts, with the values of the variables in its environment.
    private func run(_ drafts: [(name: String, draft: RequestDraft)], hidesSecrets: Bool) async throws -> [RecordedRequest] {
        var drafts = drafts, secrets = SecretVariables()
        if hidesSecrets { secrets.hide(in: &drafts) }
        let text = RequestDraft.manifest(drafts)
        for value in secrets.values.values where value.count >= 6 { #expect(!text.contains(value), "\(text)") }
        let environment = Self.environment.merging(secrets.values) { $1 }
        let workflow: Workflow
        do {
            workflow = try Workflow(
                parsing: Data(text.utf8), name: "m.yaml", inputs: WorkflowInputs(environment: environment))
        } catch {
            Issue.record("\(error): \(text)")
            return []
        }
        var options = WorkflowRun.Options()
        options.directory = try TemporaryDirectory().url
        server.forgetRequests()
        _ = await (try WorkflowRun(workflow, options: options)).run()
        return received
    }

    /// The requests except those that only fetch a challenge, which a client may already have.
    private var received: [RecordedRequest] {
        server.requests.filter { $0.path != "/digest" || $0.headers["Authorization"] != nil }
    }

    private func curl(_ command: String) throws -> [RecordedRequest] {
        server.forgetRequests()
        let script = "curl() { /usr/bin/curl -q -s -S \"$@\" > /dev/null; }\n" + command
        _ = try ProcessRunner.run(
            "/bin/bash", ["-c", command.contains("command curl") ? command : script], environment: Self.environment,
            directory: directory.url)
        return received
    }

    /// Returns the fields of a request that must match.
    private func compared(_ request: RecordedRequest) -> Set<String> {
        var names: Set<String> = []
        if request.headers["User-Agent"].map({ !$0.hasPrefix("curl/") }) == true { names.insert("user-agent") }
        if request.headers["Accept"].map({ $0 != "*/*" }) == true { names.insert("accept") }
        if request.headers["Accept-Language"] != nil { names.insert("accept-language") }
        return names
    }

    @Test(
        .enabled(if: curlIsInstalled, "there is no /usr/bin/curl here"),
        arguments: ImportedCommands.equal + ImportedCommands.equalBlocks)
    func `an imported curl command sends the same request as curl`(text: String) async throws {
        let command = command(text)
        let originals = try curl(command)
        #expect(!originals.isEmpty)
        let drafts: [(name: String, draft: RequestDraft)]
        do {
            drafts = try CurlCommandLine.drafts(command)
        } catch {
            Issue.record("\(error)")
            return
        }
        let kept = originals.map(compared)
        let expected = originals.enumerated().map { Sent($0.element, keeping: kept[$0.offset]) }
        for hidesSecrets in [false, true] {
            let sent = try await run(drafts, hidesSecrets: hidesSecrets)
            let found = sent.enumerated().map { Sent($0.element, keeping: $0.offset < kept.count ? kept[$0.offset] : []) }
            #expect(found == expected, "\(RequestDraft.manifest(drafts))")
        }
    }

    @Test(arguments: ImportedCommands.announced)
    func `a curl command that a manifest cannot express has a note or is refused`(text: String) {
        guard let drafts = try? CurlCommandLine.drafts(command(text)) else { return }
        #expect(!drafts.flatMap(\.draft.notes).isEmpty, "\(RequestDraft.manifest(drafts))")
    }

    @Test(arguments: [
        (#"/x.pem:pw"#, "/x.pem", true), (#"C\:/x.pem:pw"#, "C:/x.pem", true), (#"C\:/x.pem"#, "C:/x.pem", false),
        (#"a\\:pw"#, #"a\"#, true), (#"a\b"#, #"a\b"#, false), (#"a\"#, #"a\"#, false), ("a:", "a", true),
    ])
    func `a passphrase follows the first unescaped colon of a certificate`(
        value: String, path: String, isLeftOut: Bool
    ) {
        let certificate = CurlReader.certificate(value)
        #expect(certificate.path == path && certificate.hasPassphrase == isLeftOut)
    }

    @Test func `the table has 200 commands`() {
        let all = ImportedCommands.equal + ImportedCommands.equalBlocks + ImportedCommands.announced
        #expect(Set(all).count == all.count)
        #expect(all.count >= 200)
    }
}

extension String {
    fileprivate func trimmingSuffix(_ suffix: String) -> String {
        hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
    }
}
