import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Tests that `--pin` applies to every spelling of a URL, from every source.
@Suite(.serialized) struct SpellingTests {
    private let plain: TestServer
    private let scratch: Scratch
    private let pin = "sha256/" + Data(repeating: 7, count: 32).base64EncodedString()

    init() throws {
        plain = try TestServer()
        plain.route(nil, "/file", .text("forged"))
        scratch = try Scratch()
    }

    private var texts: [String] { Spelling.urls(Spelling.http, Spelling.loopback, port: Int(plain.port), "/file") }

    private func expectNothing(_ result: ToolProcess.Result, _ what: String) {
        #expect(result.status == 5, "\(what): \(result.errors)")
        #expect(result.errors.contains("only over https"), "\(what): \(result.errors)")
        #expect(plain.statistics.totalConnectionCount == 0, "\(what)")
        #expect(!scratch.names.contains("file"), "\(what)")
    }

    @Test func `--pin applies to every spelling of a URL on the command line`() async throws {
        for text in texts {
            expectNothing(try await ToolProcess.run(["get", "--pin", pin, text], in: scratch.url), text)
        }
        let result = try await ToolProcess.run(["get", "HTTP://127.0.0.1:\(plain.port)/file"], in: scratch.url)
        #expect(result.status == 0)
        #expect(try scratch.text("file") == "forged")
    }

    @Test func `--pin applies to URLs in lists and Metalinks`() async throws {
        for (index, text) in texts.enumerated() {
            try scratch.write("\(text)\n  out=file\n", to: "list")
            expectNothing(try await ToolProcess.run(["get", "--pin", pin, "-i", "list"], in: scratch.url), text)
            let document = """
                <?xml version="1.0" encoding="UTF-8"?>
                <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="file"><url>\(text)</url></file></metalink>
                """
            try scratch.write(document, to: "\(index).meta4")
            expectNothing(
                try await ToolProcess.run(["get", "--retry", "0", "--pin", pin, "-i", "\(index).meta4"], in: scratch.url),
                text)
        }
    }

    @Test func `--pin applies to URLs in manifests, with and without a base URL`() async throws {
        for text in texts {
            let base = String(text.dropLast("file".count))
            for manifest in [
                #"{"requests": [{"id": "1", "url": "\#(text)", "output": "file"}]}"#,
                #"{"baseURL": "\#(base)", "requests": [{"id": "1", "url": "file", "output": "file"}]}"#,
            ] {
                try scratch.write(manifest, to: "m.json")
                let result = try await ToolProcess.run(["run", "--pin", pin, "m.json"], in: scratch.url)
                #expect(result.status != 0 && plain.statistics.totalConnectionCount == 0, "\(manifest): \(result.errors)")
                #expect(!scratch.names.contains("file"))
            }
        }
    }
}
