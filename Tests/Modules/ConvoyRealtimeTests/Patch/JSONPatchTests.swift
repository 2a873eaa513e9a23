import ConvoyRealtime
import ConvoySerialization
import Foundation
import Testing

/// JSON Patch (RFC 6902).
@Suite struct JSONPatchTests {
    // MARK: Parsing

    @Test func `a parsed patch is serialized unchanged, with all digits`() throws {
        let text = """
            [{"op":"add","path":"/a~1b","value":1.10},{"op":"remove","path":"/c"},{"op":"replace","path":"","value":null},\
            {"op":"move","from":"/d","path":"/e/-"},{"op":"copy","from":"/~0","path":"/f"},{"op":"test","path":"/g",\
            "value":{"h":[1e400,12345678901234567.89]}}]
            """
        let patch = try patch(text)
        #expect(patch.description == text)
        #expect(patch.operations.count == 6)
        #expect(patch.operations[0] == .add(path: ["a/b"], value: .number(try #require(JSONNumber("1.1")))))
        #expect(patch.operations[3] == .move(from: ["d"], path: ["e", "-"]))
        #expect(try JSONPatch(patch.json) == patch)
        let decoded = try JSONDecoder().decode(
            JSONPatch.self, from: JSONEncoder().encode(JSONPatch(operations: Array(patch.operations.prefix(5)))))
        #expect(decoded.operations == Array(patch.operations.prefix(5)))
    }

    @Test func `unknown members of an operation are ignored`() throws {
        let patch = try patch(#"[{"path":"/a","note":[{}],"op":"remove","value":1,"from":7}]"#)
        #expect(patch == [.remove(path: ["a"])])
    }

    @Test(
        arguments: [
            ("{}", .notAnArray, nil), (#""x""#, .notAnArray, nil), ("[1]", .notAnObject, 0), ("[[]]", .notAnObject, 0),
            (#"[{"op":"test","path":"","value":1},{}]"#, .missingMember("op"), 1), (#"[{"op":null}]"#, .notAString("op"), 0),
            (#"[{"op":"Add","path":"/a","value":1}]"#, .unknownOperation, 0),
            (#"[{"op":"","path":"/a","value":1}]"#, .unknownOperation, 0),
            (#"[{"op":"add","value":1}]"#, .missingMember("path"), 0),
            (#"[{"op":"add","path":["a"],"value":1}]"#, .notAString("path"), 0),
            (#"[{"op":"add","path":"/a"}]"#, .missingMember("value"), 0),
            (#"[{"op":"copy","path":"/a"}]"#, .missingMember("from"), 0),
            (#"[{"op":"move","path":"/a","from":0}]"#, .notAString("from"), 0),
            (#"[{"op":"add","path":"a","value":1}]"#, .invalidPointer, 0),
            (#"[{"op":"add","path":"/~","value":1}]"#, .invalidPointer, 0),
            (#"[{"op":"add","path":"/~2","value":1}]"#, .invalidPointer, 0),
            (#"[{"op":"add","path":"/a~/b","value":1}]"#, .invalidPointer, 0),
            (##"[{"op":"add","path":"#/a","value":1}]"##, .invalidPointer, 0),
            (#"[{"op":"copy","path":"/a","from":"b"}]"#, .invalidPointer, 0),
        ] as [(String, JSONPatchError.Reason, Int?)])
    func `an invalid patch is rejected with reason and index`(text: String, reason: JSONPatchError.Reason, index: Int?) {
        #expect {
            try patch(text)
        } throws: { error in
            guard let error = error as? JSONPatchError else { return false }
            return error.reason == reason && error.operationIndex == index && !error.description.isEmpty
        }
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(JSONPatch.self, from: Data(text.utf8)) }
    }

    @Test(arguments: [#"[{"op":"add","op":"remove","path":"/a"}]"#, #"[{"op":"test","path":"/\ud800","value":1}]"#, "[", ""])
    func `parsing a patch that is invalid JSON fails with a syntax error`(text: String) {
        #expect(throws: JSONSyntaxError.self) { try patch(text) }
    }

    // MARK: Applying

    @Test(arguments: [
        // Members keep their order; a new one is added at the end.
        (#"{"a":1,"b":2}"#, #"[{"op":"add","path":"/a","value":3}]"#, #"{"a":3,"b":2}"#),
        (#"{"a":1,"b":2}"#, #"[{"op":"replace","path":"/a","value":null}]"#, #"{"a":null,"b":2}"#),
        (#"{"a":1,"b":2}"#, #"[{"op":"move","from":"/a","path":"/c"}]"#, #"{"b":2,"c":1}"#),
        // Operations can change the root.
        (#"{"a":1}"#, #"[{"op":"add","path":"","value":7}]"#, "7"),
        (#"{"a":1}"#, #"[{"op":"replace","path":"","value":null}]"#, "null"),
        (#"{"a":[1]}"#, #"[{"op":"move","from":"/a/0","path":""}]"#, "1"),
        (#"{"a":[1]}"#, #"[{"op":"copy","from":"/a","path":""}]"#, "[1]"),
        (#"{"a":[1]}"#, #"[{"op":"copy","from":"","path":"/b"}]"#, #"{"a":[1],"b":{"a":[1]}}"#),
        ("7", #"[{"op":"test","path":"","value":7.0},{"op":"move","from":"","path":""}]"#, "7"),
        // Operations can change the ends of arrays.
        ("[]", #"[{"op":"add","path":"/0","value":1},{"op":"add","path":"/-","value":2}]"#, "[1,2]"),
        ("[1,2]", #"[{"op":"add","path":"/2","value":3},{"op":"add","path":"/0","value":0}]"#, "[0,1,2,3]"),
        ("[1,2]", #"[{"op":"remove","path":"/1"},{"op":"remove","path":"/0"}]"#, "[]"),
        ("[1,2,3]", #"[{"op":"move","from":"/0","path":"/2"}]"#, "[2,3,1]"),
        ("[1,2,3]", #"[{"op":"move","from":"/0","path":"/-"}]"#, "[2,3,1]"),
        ("[1,2,3]", #"[{"op":"move","from":"/2","path":"/0"}]"#, "[3,1,2]"),
        ("[1,2]", #"[{"op":"copy","from":"/1","path":"/1"}]"#, "[1,2,2]"),
        ("[[1],2]", #"[{"op":"move","from":"/1","path":"/0/0"}]"#, "[[2,1]]"),
        // A value can be moved to its own location.
        (#"{"a":1,"b":2}"#, #"[{"op":"move","from":"/a","path":"/a"}]"#, #"{"a":1,"b":2}"#),
        (#"{"a":1,"b":2}"#, #"[{"op":"copy","from":"/a","path":"/a"}]"#, #"{"a":1,"b":2}"#),
        // A value can replace its own container.
        (#"{"a":{"b":{"c":1}},"d":2}"#, #"[{"op":"move","from":"/a/b","path":"/a"}]"#, #"{"a":{"c":1},"d":2}"#),
        // Keys can resemble indices or escapes.
        (
            #"{"-":1,"01":2,"":3,"a/b":4,"~1":5}"#, #"[{"op":"remove","path":"/-"},{"op":"remove","path":"/01"}]"#,
            #"{"":3,"a/b":4,"~1":5}"#
        ),
        (#"{"":3,"a/b":4,"~1":5}"#, #"[{"op":"remove","path":"/"},{"op":"remove","path":"/~01"}]"#, #"{"a/b":4}"#),
        (#"{"a/b":4}"#, #"[{"op":"add","path":"/-","value":1}]"#, #"{"a/b":4,"-":1}"#),
        (#"{"\u0000":1}"#, #"[{"op":"replace","path":"/\u0000","value":2}]"#, #"{"\u0000":2}"#),
        // Keys can contain accented letters in two forms.
        (#"{"\u00e9":1,"e\u0301":2}"#, #"[{"op":"remove","path":"/e\u0301"}]"#, #"{"é":1}"#),
        (
            #"{"a\u0301\u0327":1}"#, #"[{"op":"add","path":"/a\u0327\u0301","value":2}]"#,
            #"{"a\u0301\u0327":1,"a\u0327\u0301":2}"#
        ),
        (#"{"/\u0301":1}"#, #"[{"op":"remove","path":"/~1\u0301"}]"#, "{}"),
    ])
    func `operations change the document as specified`(before: String, text: String, after: String) throws {
        var document = try json(before)
        try patch(text).apply(to: &document)
        #expect(document.description == (try json(after).description))
    }

    @Test(
        arguments: [
            ("{}", #"{"op":"remove","path":""}"#, .removedRoot, ""),
            ("{}", #"{"op":"remove","path":"/a"}"#, .notFound, "/a"),
            ("[1]", #"{"op":"remove","path":"/-"}"#, .indexOutOfBounds(count: 1), "/-"),
            ("[1]", #"{"op":"replace","path":"/1","value":1}"#, .indexOutOfBounds(count: 1), "/1"),
            ("[1]", #"{"op":"add","path":"/2","value":1}"#, .indexOutOfBounds(count: 1), "/2"),
            ("[1]", #"{"op":"test","path":"/00","value":1}"#, .invalidIndex, "/00"),
            ("[1]", #"{"op":"add","path":"/01","value":1}"#, .invalidIndex, "/01"),
            ("[1]", #"{"op":"add","path":"/","value":1}"#, .invalidIndex, "/"),
            ("[1]", #"{"op":"add","path":"/+1","value":1}"#, .invalidIndex, "/+1"),
            ("[1]", #"{"op":"add","path":"/99999999999999999999","value":1}"#, .invalidIndex, "/99999999999999999999"),
            ("[1]", #"{"op":"add","path":"/0/a","value":1}"#, .notAContainer, "/0/a"),
            (#"{"a":"x"}"#, #"{"op":"add","path":"/a/0","value":1}"#, .notAContainer, "/a/0"),
            (#"{"a":null}"#, #"{"op":"add","path":"/a/b","value":1}"#, .notAContainer, "/a/b"),
            ("{}", #"{"op":"add","path":"/a/b","value":1}"#, .notFound, "/a/b"),
            ("7", #"{"op":"add","path":"/a","value":1}"#, .notAContainer, "/a"),
            ("{}", #"{"op":"replace","path":"/a","value":1}"#, .notFound, "/a"),
            ("{}", #"{"op":"move","from":"/a","path":"/a"}"#, .notFound, "/a"),
            ("{}", #"{"op":"move","from":"/a","path":"/b"}"#, .notFound, "/a"),
            ("{}", #"{"op":"copy","from":"/a/b","path":"/b"}"#, .notFound, "/a/b"),
            (#"{"a":{"b":1}}"#, #"{"op":"move","from":"/a","path":"/a/b"}"#, .movedIntoItself, "/a/b"),
            (#"{"a":{"b":1}}"#, #"{"op":"move","from":"","path":"/a"}"#, .movedIntoItself, "/a"),
            ("[1,[2]]", #"{"op":"move","from":"/0","path":"/0/0"}"#, .movedIntoItself, "/0/0"),
            ("[1,2]", #"{"op":"move","from":"/0","path":"/2"}"#, .indexOutOfBounds(count: 1), "/2"),
            ("[1,2]", #"{"op":"move","from":"/0","path":"/1/a"}"#, .indexOutOfBounds(count: 1), "/1/a"),
            (#"{"b":1,"a":[],"c":1}"#, #"{"op":"move","from":"/b","path":"/x/0"}"#, .notFound, "/x/0"),
            (#"{"a":1}"#, #"{"op":"test","path":"/a","value":2}"#, .testFailed, "/a"),
            (#"{"a":1}"#, #"{"op":"test","path":"/b","value":null}"#, .notFound, "/b"),
            (#"{"a":1}"#, #"{"op":"test","path":"/a","value":"1"}"#, .testFailed, "/a"),
            (#"{"\u00e9":1}"#, #"{"op":"test","path":"/e\u0301","value":1}"#, .notFound, "/e\u{301}"),
            (#"{"a":"\u00e9"}"#, #"{"op":"test","path":"/a","value":"e\u0301"}"#, .testFailed, "/a"),
        ] as [(String, String, JSONPatchError.Reason, String)])
    func `a patch fails and changes nothing if one of its operations cannot be applied`(
        before: String, operation: String, reason: JSONPatchError.Reason, pointer: String
    ) throws {
        // The preceding operations must be undone.
        let document = try json(before)
        let patch = try patch(
            """
            [{"op":"test","path":"","value":\(before)},{"op":"copy","from":"","path":""},\(operation),\
            {"op":"add","path":"","value":1}]
            """)
        let error = try #require(failure(of: patch, on: document))
        #expect(error.reason == reason && error.operationIndex == 2)
        #expect(error.pointer.map { Array($0.utf8) } == Array(pointer.utf8))
        #expect(error.operation == patch.operations[2].name)
        #expect(error.description.hasPrefix("Operation 2 of the JSON Patch (\"\(error.operation ?? "")\" at "))
    }

    @Test(arguments: [
        ("1", "1.0", true), ("1", "1e0", true), ("1", "10e-1", true), ("0.1", "0.10", true), ("0", "-0", true),
        ("-0.0", "0e7", true), ("1e400", "10E+399", true), ("1e400", "1e401", false), ("1e-400", "0", false),
        ("123456789012345678901234567890", "123456789012345678901234567890.0", true),
        ("123456789012345678901234567890", "123456789012345678901234567891", false),
        ("9007199254740993", "9007199254740992", false), ("0.1", "0.1000000000000000055511151231257827", false),
        ("1", "true", false), ("0", "false", false), ("1", "\"1\"", false),
        ("1e99999999999999999999", "1e99999999999999999999", true),
        ("1e99999999999999999999", "1e99999999999999999998", false),
    ])
    func `numbers are compared by their exact values`(one: String, other: String, areEqual: Bool) throws {
        let document = try json("{\"n\":[\(one)]}")
        let isFailure = failure(of: [.test(path: ["n", "0"], value: try json(other))], on: document) != nil
        #expect(isFailure != areEqual)
        #expect(JSONPatch(from: document, to: try json("{\"n\":[\(other)]}")).operations.isEmpty == areEqual)
    }

    @Test func `error descriptions shorten and escape unusual pointers`() throws {
        let long = JSONPatchError(
            .notFound, operationIndex: 3, operation: "remove",
            pointer: "/" + String(repeating: "e\u{301}\u{301}", count: 100_000))
        #expect(long.description.utf8.count < 400)
        #expect(long.description.contains("…\" of 500001 bytes"))
        let odd = JSONPatchError(.notFound, operationIndex: 0, operation: "\u{1B}[2J", pointer: "/\r\n\u{202E}\"\0")
        #expect(odd.description.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x202E })
        #expect(odd.localizedDescription == odd.description)
        #expect(
            JSONPatchError(.testFailed, operationIndex: 1, operation: "test", pointer: "/a").description
                == #"Operation 1 of the JSON Patch ("test" at "/a") failed: the value is different."#)
    }

    // MARK: Values

    struct Note: Codable, Equatable {
        var title: String
        var tags: [String]
        var price: Decimal?
    }

    @Test func `a Codable value is patched in place or left unchanged`() throws {
        var note = Note(title: "a", tags: ["x"], price: Decimal(string: "12345678901234567.89"))
        try ([.add(path: ["tags", "-"], value: "y"), .replace(path: ["title"], value: "b")] as JSONPatch).apply(to: &note)
        #expect(note == Note(title: "b", tags: ["x", "y"], price: Decimal(string: "12345678901234567.89")))
        let before = note
        #expect(throws: JSONPatchError.self) {
            try ([.remove(path: ["tags"]), .remove(path: ["x"])] as JSONPatch).apply(to: &note)
        }
        #expect(throws: DecodingError.self) { try ([.remove(path: ["tags"])] as JSONPatch).apply(to: &note) }
        #expect(throws: DecodingError.self) { try JSONMergePatch(["tags": nil]).apply(to: &note) }
        #expect(note == before)
        try JSONMergePatch(["title": "c", "price": nil]).apply(to: &note)
        #expect(note == Note(title: "c", tags: ["x", "y"], price: nil))
        let patch = try JSONPatch(from: note, to: before)
        try patch.apply(to: &note)
        #expect(note == before && patch.operations.count == 1)
    }
}
