import ConvoySerialization
import Foundation
import Testing

@testable import ConvoyWorkflow

@Suite struct DocumentTests {
    @Test func `request names in a JSON manifest have positions`() throws {
        let text = #"{"version": 1,\n "requests": {\n  "a": {"get": "x"}, "b": {"get": "y"},\n  "c": {}}}"#.replacing(
            "\\n", with: "\n")
        let document = try ManifestDocument(parsing: Data(text.utf8), name: "m.json")
        for (name, line, column) in [("a", 3, 3), ("b", 3, 22), ("c", 4, 3)] {
            let position = document.position(of: JSONPointer(tokens: ["requests", name]), key: true)
            #expect(position == ManifestDocument.Position(line: line, column: column), "\(name)")
        }
    }

    private func tree(_ text: String) throws -> JSON { try ManifestDocument(parsing: Data(text.utf8), name: "m").json }

    private func problem(_ text: String) -> String? {
        do throws(ManifestError) {
            _ = try ManifestDocument(parsing: Data(text.utf8), name: "m")
            return nil
        } catch {
            return error.description
        }
    }

    @Test func `YAML follows the core schema of version 1.2`() throws {
        let json = try tree(
            """
            words: [no, on, yes, off, y, 1:30, 2024-01-02, 0b1, .inf, 1_000, "1", 'true', -, +, ., -., .e5]
            nulls: [null, ~, Null, ]
            empty:
            bools: [true, False, TRUE]
            numbers: [1, -2, +3, 1.5, .5, 1e3, 0o17, 0xFF, 007, 1.]
            text: |
              one
              two
            folded: >-
              one
              two
            """)
        #expect(
            json[["words"]] == [
                "no", "on", "yes", "off", "y", "1:30", "2024-01-02", "0b1", ".inf", "1_000", "1", "true", "-", "+", ".",
                "-.",
                ".e5",
            ])
        #expect(json[["nulls"]] == [nil, nil, nil])
        #expect(json[["empty"]] == JSON.null)
        #expect(json[["bools"]] == [true, false, true])
        #expect(json[["numbers"]] == [1, -2, 3, 1.5, 0.5, 1000, 15, 255, 7, 1])
        #expect(json[["text"]] == "one\ntwo\n")
        #expect(json[["folded"]] == "one two")
    }

    @Test func `a core schema tag determines the type`() throws {
        let json = try tree(
            "a: [!!str 5, !!str null, !!int '7', !!float 2, !!bool 'true', !!null '', ! 8, !!seq [1], !!map {a: 1}]")
        #expect(json[["a"]] == ["5", "null", 7, 2, true, nil, "8", [1], ["a": 1]])
    }

    /// Returns the processor time of this thread, in seconds.
    private func time(of work: () throws -> Void) rethrows -> Double {
        var before = timespec(), after = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before)
        try work()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after)
        return Double(after.tv_sec - before.tv_sec) + Double(after.tv_nsec - before.tv_nsec) / 1e9
    }

    @Test func `parsing time grows linearly with the length of the manifest`() throws {
        func manifest(_ count: Int) -> Data {
            let requests = (0..<count).map { "  r\($0): {get: x/\($0), after: [r0], query: {a: [1, 2]}}" }
            return Data(
                "baseURL: http://a.test\nrequests:\n  r0: {get: x}\n\(requests.dropFirst().joined(separator: "\n"))".utf8)
        }
        let small = manifest(1500), large = manifest(12_000)
        func best(_ data: Data) throws -> Double {
            try (0..<3).map { _ in try time { _ = try Workflow(parsing: data, name: "m") } }.min() ?? 0
        }
        // For eight times the input, the ratio is about 8 if the time is linear, and 64 if it is quadratic.
        let ratio = try best(large) / (try best(small))
        #expect(ratio < 16, "\(ratio)")
    }

    @Test func `JSON and YAML versions of a manifest produce the same tree`() throws {
        let yaml = try tree("a:\n  - b: 1\n    c: [x, {d: null}]\n  - text\n\"\": e\n")
        #expect(yaml == (try tree(#"{"a": [{"b": 1, "c": ["x", {"d": null}]}, "text"], "": "e"}"#)))
    }

    @Test func `JSON manifests are parsed as JSON, not as YAML`() throws {
        #expect(try tree(#"["\ud83d\ude00", "\u007f"]"#) == ["😀", "\u{7F}"])
        #expect(problem("[1,]")?.hasPrefix("m:1:4: ") == true)
    }

    @Test(arguments: [
        ("a: &x 1\nb: *x", "m:1:4: anchors are not allowed"), ("b: *x", "m:1:4: aliases are not allowed"),
        ("a: 1\nb: 2\na: 3", #"m:3:1: duplicate key "a""#), (#"{"a": 1, "a": 2}"#, "m:1:10: duplicate key"),
        ("a: !!int x", #"m:1:4: "x" does not match the tag !!int"#),
        (
            "a: 1\n---\nb: 2",
            "m:2:1: only one document is allowed"
        ),
        ("", "m:1:1: the manifest is empty"), ("# nothing\n", "m:1:1: the manifest is empty"),
        ("a: [1\nb: 2", "m:2:"), ("a:\n\t- b", "m:2:1: found character that cannot start any token"),
        ("? [a]\n: b", "m:1:3: a key must be text"), ("? {a: b}\n: c", "m:1:3: a key must be text"),
        (String(repeating: "[", count: 100), "m:1:65: nested too deeply"),
        ("a: \(String(repeating: "[", count: 100))", "m:1:67: nested too deeply"),
        ("a: !!int 1.5", #"m:1:4: "1.5" does not match the tag !!int"#),
        ("a: !!bool yes", #"m:1:4: "yes" does not match the tag !!bool"#),
        ("a: !mine 3", "m:1:4: unknown tag !mine; the tags are !!str, !!int, !!float, !!bool, !!null, !!seq, !!map"),
        ("a: !!binary aGk=", "m:1:4: unknown tag !!binary; "), ("a: !!set {b, c}", "m:1:4: unknown tag !!set; "),
        ("a: !mine [b]", "m:1:4: unknown tag !mine; "),
        ("a: !!str [b]", "m:1:4: the tag !!str does not apply to this value"),
        ("a: !!seq b", "m:1:4: the tag !!seq does not apply to this value"),
    ])
    func `an error includes the position in the document`(text: String, message: String) {
        #expect(problem(text)?.hasPrefix(message) == true, "\(problem(text) ?? "nothing")")
    }

    @Test func `a byte order mark is ignored`() throws {
        #expect(try ManifestDocument(parsing: Data("\u{FEFF}a: 1\nb: 2\n".utf8), name: "m").json == ["a": 1, "b": 2])
    }

    @Test func `a key that is too long is reported with the limit`() {
        let text = problem("requests:\n  \(String(repeating: "a", count: 2000)): 1\n")
        #expect(text?.hasPrefix("m:2:2003: ") == true)
        #expect(text?.hasSuffix("; a key can have at most 1024 characters") == true)
    }

    @Test func `invalid UTF-8 is reported with its position`() {
        let data = Data("a: 1\nb: ".utf8) + [0xFF, 0xFE]
        #expect(throws: ManifestError(file: "m", line: 2, column: 4, message: "invalid leading UTF-8 octet")) {
            _ = try ManifestDocument(parsing: data, name: "m")
        }
    }

    @Test func `an unquoted reference in a flow mapping is explained`() {
        let text = problem("requests:\n  a:\n    get: x\n    json: {user: ${user}}\n") ?? ""
        #expect(text.hasPrefix("m:4:"))
        #expect(text.hasSuffix("inside { } or [ ], a ${…} must be quoted: \"${…}\""))
    }
}
