import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// A failed capture reports the reason: nothing was found, or the body cannot be searched.
@Suite struct CaptureFailureTests {
    let bench: WorkflowBench

    init() throws { bench = try WorkflowBench() }

    struct Case: Sendable, CustomTestStringConvertible {
        let source: String
        let type: String
        let body: String
        let message: String
        var testDescription: String { "\(source) of \(body.prefix(40))" }

        init(_ source: String, _ type: String, _ body: String, _ message: String) {
            (self.source, self.type, self.body, self.message) = (source, type, body, message)
        }
    }

    private static let deep = String(repeating: "[", count: 600) + String(repeating: "]", count: 600)

    static let failures = [
        Case("json:/a", "application/json", "{\"b\": 1}", "nothing found at json:/a"),
        Case("json:/a", "application/json", "", "the body is empty"),
        Case("json:/a", "text/html", "<!doctype html><p>login", "the body is not JSON: "),
        Case("json:/a", "application/json", ")]}'\n{\"a\":1}", "the body is not JSON: "),
        Case("json:/a", "application/json", "{\"a\":1", "the body is not JSON: "),
        Case("json:/0", "application/json", deep, "the body is not JSON: nested too deeply"),
        Case("xpath://a", "text/xml", "", "the body is empty"),
        Case("xpath://a", "text/xml", "{\"a\":1}", "the body is not XML"),
        Case("xpath://b", "text/xml", "<a/>", "nothing found at xpath://b"),
        Case("xpath://x:b", "text/xml", "<a><b/></a>", "the document does not declare a prefix of //x:b"),
        Case("text:(z+)", "text/plain", "abc", "nothing found at text:(z+)"),
        Case(
            "text:(.*)*c", "text/plain", String(repeating: "ab", count: 100_000),
            "the search for \"(.*)*c\" took too long"),
        Case("header:X-None", "text/plain", "x", "nothing found at header:X-None"),
    ]

    private func capture(_ item: Case) async throws -> WorkflowBench.Finished {
        bench.server.route("/x", .bytes(Data(item.body.utf8), type: item.type))
        let source = String(decoding: try JSONEncoder().encode(item.source), as: UTF8.self)
        return try await bench.run("requests: {a: {get: x, capture: {v: \(source)}}}")
    }

    @Test(arguments: failures) func `a failed capture reports the reason`(item: Case) async throws {
        let finished = try await capture(item)
        let failure = try finished.failure("a")
        #expect(failure.hasPrefix("capture v: \(item.message)"), "\(failure)")
    }

    static let namespaces = [
        Case("xpath://n:b", "text/xml", "<a><c xmlns:n='urn:n'><n:b>1</n:b></c></a>", "[\"1\"]"),
        Case("xpath://_:b", "text/xml", "<a xmlns='urn:d'><b>1</b></a>", "[\"1\"]"),
        Case("xpath://_:b", "text/xml", "<a><c/><b xmlns='urn:d'>1</b></a>", "[\"1\"]"),
        Case("xpath://n:b", "text/xml", "<a xmlns:n='urn:n'><n:b>1</n:b><c xmlns:n='urn:m'><n:b>2</n:b></c></a>", "[\"1\"]"),
    ]

    @Test(arguments: namespaces) func `XPath captures use the namespace prefixes of the document`(item: Case) async throws {
        let finished = try await capture(item)
        #expect(try finished.outcome("a").captures.map(\.value) == [item.message])
    }

    @Test func `a page that cannot be parsed fails the request`() async throws {
        bench.server.route("/x", .text("<html>"))
        let finished = try await bench.run("requests: {a: {get: x, follow: json:/next}}")
        #expect(try finished.failure("a").hasPrefix("follow: the body is not JSON: "))
    }

    @Test(arguments: [
        ("a${x}b", "a1b"), ("$${x}", "${x}"), ("$$${x}", "$${x}"), ("$a", "$a"), ("$", "$"), ("${x}${x}", "11"),
        ("{x}", "{x}"),
        ("\u{301}${x}\u{301}", "\u{301}1\u{301}"), ("$ {x}", "$ {x}"), ("${ x }", "1"),
    ])
    func `templates are expanded in place`(text: String, value: String) async throws {
        bench.server.route("POST", "/x", .text("x"))
        let quoted = String(decoding: try JSONEncoder().encode(text), as: UTF8.self)
        let finished = try await bench.run("variables: {x: 1}\nrequests: {a: {post: x, text: \(quoted)}}")
        #expect(finished.result.failures.isEmpty)
        #expect(Data(bench.server.requests[0].text.utf8) == Data(value.utf8))
    }
}
