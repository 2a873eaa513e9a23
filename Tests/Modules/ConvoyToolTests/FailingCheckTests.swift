import ConvoyTestServer
import Foundation
import Testing

@testable import ConvoyTool

/// The complete output of `convoy run` for checks that fail, as a person reads it.
@Suite(.serialized) struct FailingCheckTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
        let json = #"{"count": 5, "name": "Ada", "tags": ["a", "b"], "user": {"id": 7, "mail": "ada@a.test"}, "none": null}"#
        server.route("/item", TestServer.Response.json(text: json).header("Set-Cookie", "sid=1; Path=/; HttpOnly"))
        server.route("/text", .text("Hello World!\nSecond line\nThird line\n"))
        server.route("/gone", .json(text: #"{"error": "no such thing"}"#, status: 404))
        server.route("/page", .bytes(Data("<title>Start</title>".utf8), type: "text/html"))
        server.redirect("/old", to: "/item")
        try scratch.write("Hello World!\nAnother line\nThird line\n", to: "wanted.txt")
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let request: String
        let message: String

        init(_ name: String, _ request: String, _ message: String) {
            testDescription = name
            self.request = request
            self.message = message
        }
    }

    static let cases = [
        Case(
            "a status", "get: gone, expect: {status: 200}",
            #"""
            convoy: m.yaml:3: a: status: expected 200, got 404, with "{"error": "no such thing"}"
            """#),
        Case(
            "the default status", "get: gone",
            #"""
            convoy: m.yaml:3: a: status: expected 200-299, got 404, with "{"error": "no such thing"}"
            """#),
        Case(
            "a status in an expression", "get: item, expect: ['status in [201, 202]']",
            #"""
            convoy: m.yaml:3:28: a: status in [201, 202]
                actual:   200 (number)
                expected: in [201,202] (list of 2)
            """#),
        Case(
            "a number", "get: item, expect: ['json.count == 6']",
            #"""
            convoy: m.yaml:3:28: a: json.count == 6
                actual:   5 (number)
                expected: 6 (number)
            """#),
        Case(
            "a type", #"get: item, expect: ["json.count == '5'"]"#,
            #"""
            convoy: m.yaml:3:28: a: json.count == '5'
                actual:   5 (number)
                expected: "5" (string)
            """#),
        Case(
            "a range", "get: item, expect: ['json.count > 10 and json.count < 20']",
            #"""
            convoy: m.yaml:3:28: a: json.count > 10 and json.count < 20
                json.count > 10
                  actual:   5 (number)
                  expected: > 10 (number)
            """#),
        Case(
            "a missing member", "get: item, expect: ['json.user.phone exists']",
            #"""
            convoy: m.yaml:3:28: a: json.user.phone exists
                actual:   missing ("phone" is not in the object)
                expected: a value
            """#),
        Case(
            "an unwanted member", "get: item, expect: ['json.user.mail not exists']",
            #"""
            convoy: m.yaml:3:28: a: json.user.mail not exists
                actual:   "ada@a.test" (string)
                expected: no value
            """#),
        Case(
            "a list", #"get: item, expect: ["json.tags contains 'z'"]"#,
            #"""
            convoy: m.yaml:3:28: a: json.tags contains 'z'
                actual:   ["a","b"] (list of 2)
                expected: contains "z" (string)
            """#),
        Case(
            "a count", "get: item, expect: ['json.tags | count == 3']",
            #"""
            convoy: m.yaml:3:28: a: json.tags | count == 3
                actual:   2 (number)
                expected: 3 (number)
            """#),
        Case(
            "an object", #"get: item, expect: ["json.user == {id: 7, mail: 'x@a.test'}"]"#,
            #"""
            convoy: m.yaml:3:28: a: json.user == {id: 7, mail: 'x@a.test'}
                actual:   {"id":7,"mail":"ada@a.test"} (object)
                expected: {"id":7,"mail":"x@a.test"} (object)
                /mail: "ada@a.test", expected "x@a.test"
            """#),
        Case(
            "a text", "get: text, expect: [\"body == file('wanted.txt')\"]",
            #"""
            convoy: m.yaml:3:28: a: body == file('wanted.txt')
                actual:   "Hello World!\nSecond line\nThird line\n" (string)
                expected: "Hello World!\nAnother line\nThird line\n" (string)
                they differ at line 2, column 1: "lo World!\nSecond line\nThird line\n", expected "lo World!\nAnother line\nThird line\n"
            """#),
        Case(
            "a regular expression", #"get: text, expect: ["body matches '^Bye'"]"#,
            #"""
            convoy: m.yaml:3:28: a: body matches '^Bye'
                actual:   "Hello World!\nSecond line\nThird line\n" (string)
                expected: matches "^Bye" (string)
            """#),
        Case(
            "a header", #"get: item, expect: ["headers.Content-Type == 'text/plain'"]"#,
            #"""
            convoy: m.yaml:3:28: a: headers.Content-Type == 'text/plain'
                actual:   "application/json" (string)
                expected: "text/plain" (string)
            """#),
        Case(
            "a missing header", "get: item, expect: {header: {X-Trace: abc}}",
            #"""
            convoy: m.yaml:3: a: header X-Trace: expected "abc", got none
            """#),
        Case(
            "an attribute of a cookie", "get: item, expect: ['cookies.sid.secure']",
            #"""
            convoy: m.yaml:3:28: a: cookies.sid.secure
                actual:   missing
                expected: a true value
            """#),
        Case(
            "a JSONPath", #"get: item, expect: ["jsonpath('$.tags[*]') == ['b', 'a']"]"#,
            #"""
            convoy: m.yaml:3:28: a: jsonpath('$.tags[*]') == ['b', 'a']
                actual:   ["a","b"] (list of 2)
                expected: ["b","a"] (list of 2)
                /0: "a", expected "b"
                /1: "b", expected "a"
            """#),
        Case(
            "an XPath", #"get: page, expect: ["xpath('string(//title)') == 'Shop'"]"#,
            #"""
            convoy: m.yaml:3:28: a: xpath('string(//title)') == 'Shop'
                actual:   "Start" (string)
                expected: "Shop" (string)
            """#),
        Case(
            "a size and a digest", "get: text, expect: {bytes: 10, md5: 0123456789abcdef0123456789abcdef}",
            #"""
            convoy: m.yaml:3: a: size: expected 10 bytes, got 36
            convoy: m.yaml:3: a: md5: expected 0123456789abcdef0123456789abcdef, got 4f52301a08bbe3aeb80ef68216c2cd45
            """#),
        Case(
            "a body that is not JSON", "get: text, expect: {json: {/a: 1}}",
            #"""
            convoy: m.yaml:3: a: json: the body is not JSON: expected a value
            """#),
        Case(
            "a capture", "get: item, capture: {token: 'json:/token'}",
            #"""
            convoy: m.yaml:3: a: capture token: nothing found at json:/token
            """#),
        Case(
            "a redirect", "get: old, max-redirs: 0, expect: ['status == 200']",
            #"""
            convoy: m.yaml:3:42: a: status == 200
                actual:   302 (number)
                expected: 200 (number)
            """#),
    ]

    @Test(arguments: cases) func `a check that fails prints what a person needs to see`(_ test: Case) async throws {
        try scratch.write("baseURL: \(server.url)\nrequests:\n  a: {\(test.request)}\n", to: "m.yaml")
        let result = try await ToolProcess.run(["run", "m.yaml"], in: scratch.url)
        #expect(result.status == 7 || result.status == 9 || result.status == 1, "\(result.status)")
        #expect(result.outputLines.last?.hasPrefix("0 succeeded, 1 failed, in ") == true)
        #expect(result.errors == test.message + "\n")
    }

    @Test func `--no-expect accepts every response, but writes no file of an error`() async throws {
        try scratch.write(
            """
            baseURL: \(server.url)
            requests:
              a: {get: gone, expect: [json.id == 8, status == 200], capture: {error: "json:/error"}}
              b: {get: "item?n=${a.error}", expect: {json: {/count: 8}, maxBytes: 1}}
            """, to: "m.yaml")
        #expect(try await ToolProcess.run(["run", "m.yaml"], in: scratch.url).status != 0)
        server.forgetRequests()
        let result = try await ToolProcess.run(["run", "--no-expect", "m.yaml"], in: scratch.url)
        #expect(result.status == 0 && result.outputLines.last?.hasPrefix("2 succeeded") == true, "\(result.errors)")
        #expect(server.requests.map(\.target) == ["/gone", "/item?n=no%20such%20thing"])
        try scratch.write("requests:\n  a: {get: '\(server.url)/gone', output: a.json}\n", to: "m.yaml")
        let output = try await ToolProcess.run(["run", "--no-expect", "m.yaml"], in: scratch.url)
        #expect(output.status == 7 && !scratch.names.contains("a.json"), "\(output.errors)")
    }
}
