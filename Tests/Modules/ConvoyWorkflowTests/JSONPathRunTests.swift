import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// JSONPath queries in the places of a manifest that accept a JSON Pointer.
@Suite struct JSONPathRunTests {
    let bench: WorkflowBench
    private var server: TestServer { bench.server }

    init() throws {
        bench = try WorkflowBench()
        server.route(
            "/items",
            .json(
                text: #"{"items": [{"id": 1, "price": 5}, {"id": 2, "price": 50}], "next": null, "token": "t0k", "id": 7}"#))
    }

    @Test func `a capture is one value or the list of all values`() async throws {
        server.echo(at: "/echo")
        let finished = try await bench.run(
            """
            requests:
              a:
                get: items
                capture: {one: "json:$.items[-1].id", cheap: "json:$.items[?@.price < 10].id", no: "json:$.items[?@.x].id"}
              b: {post: echo, json: {one: "${a.one}", cheap: "${a.cheap}", no: "${a.no}"}}
              missing: {get: items, capture: {x: "json:$.items[2].id"}}
            """)
        #expect(finished.states == ["a": "succeeded", "b": "succeeded", "missing": "failed"])
        #expect(server.requests.last { $0.path == "/echo" }?.text == #"{"one":2,"cheap":[1],"no":[]}"#)
        #expect(try finished.failure("missing") == "capture x: nothing found at json:$.items[2].id")
    }

    @Test func `pages are followed by a query`() async throws {
        server.route("/pages", .json(text: #"{"links": [{"rel": "next", "href": "/last"}]}"#))
        server.route("/last", .json(text: #"{"links": []}"#))
        let finished = try await bench.run("requests: {a: {get: pages, follow: 'json:$.links[0].href'}}")
        #expect(finished.states == ["a": "succeeded"], "\(finished.result.failures.map(\.failures))")
        #expect(server.requests.map(\.path) == ["/pages", "/last"])
    }

    @Test(
        arguments: [
            (#""$.items[0].id": 1"#, nil), (#""$.items[*].id": [1, 2]"#, nil), (#""$.items[?@.x]": []"#, nil),
            (#""$.items[?@.x]": {exists: false}"#, nil), (#""$.items[?@.price > 9]": {exists: true}"#, nil),
            (#""$.next": {exists: true}"#, nil), (#""$.items[*].id": {matches: "^[0-9]$"}"#, nil),
            (#""$.items[0].id": 3"#, "json $.items[0].id: expected 3, got 1"),
            (#""$.items[?@.x]": {exists: true}"#, "json $.items[?@.x]: expected a value, got none"),
            (
                #""$.items[?@.x].id": {matches: "."}"#,
                #"json $.items[?@.x].id: expected a match for ".", got none"#
            ),
            (#""$.items[1]": {exists: false}"#, #"json $.items[1]: expected none, got {"id":2,"price":50}"#),
            (#""$.token": x"#, #"json $.token: expected "***", got "***""#),
            (#""$['token', 'id']": x"#, #"json $['token', 'id']: expected "***", got "***""#),
            (#""$['id', 'token']": x"#, #"json $['id', 'token']: expected "***", got "***""#),
        ] as [(String, String?)]) func `an expectation checks what the query selects`(
            _ expectation: String, _ failure: String?
        ) async throws
    {
        let finished = try await bench.run("requests: {a: {get: items, expect: {json: {\(expectation)}}}}")
        if let failure {
            #expect(try finished.failure("a") == failure)
        } else {
            #expect(finished.states == ["a": "succeeded"], "\(finished.result.failures.map(\.failures))")
        }
    }

    @Test func `an invalid query is reported with its place`() {
        let error = #expect(throws: ManifestError.self) {
            try bench.workflow("requests:\n  a: {get: a, capture: {x: 'json:$.a['}}\n")
        }
        #expect(
            error.map { "\($0)" }
                == #"m.yaml:3:28: invalid JSONPath "$.a[": a selector is missing (character 5)"#)
    }
}
