import Foundation
import Testing

@testable import ConvoySerialization

/// JSON Pointer (RFC 6901).
@Suite struct JSONPointerTests {
    /// The example document in section 5 of the RFC.
    private let document = bytes(
        #"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}"#)

    @Test(arguments: [
        ("/foo", #"["bar","baz"]"#), ("/foo/0", #""bar""#), ("/foo/1", #""baz""#), ("/", "0"), ("/a~1b", "1"),
        ("/c%d", "2"), ("/e^f", "3"), ("/g|h", "4"), ("/i\\j", "5"), ("/k\"l", "6"), ("/ ", "7"), ("/m~0n", "8"),
    ])
    func `the examples of the RFC resolve as specified`(text: String, value: String) throws {
        let pointer = try #require(JSONPointer(text))
        let tree = try JSON(parsing: document)
        #expect(tree[pointer]?.description == value)
        #expect(tree[JSONPointer()] == tree)
        #expect(pointer.description == text)
    }

    @Test func `a key selects only a member, and an index only an element`() throws {
        let tree = try JSON(parsing: bytes(#"{"list":["a",{"0":"zero"}],"/x":1,"":2}"#))
        #expect(tree["list"]?[0] == "a" && tree["list"]?[1]?["0"] == "zero")
        #expect(tree["/x"] == 1 && tree[""] == 2)
        #expect(tree["none"] == nil && tree[0] == nil && tree["list"]?["0"] == nil)
        #expect(tree["list"]?[2] == nil && tree["list"]?[-1] == nil)
        #expect(tree["list"]?[0]?["a"] == nil && tree["list"]?[0]?[0] == nil)
    }

    @Test(arguments: [
        "/foo/2", "/foo/-", "/foo/-1", "/foo/01", "/foo/+1", "/foo/1e0", "/foo/٠", "/foo/", "/foo/bar", "/bar",
        "/foo/0/x", "//", "/foo/99999999999999999999", "/m~01n",
    ])
    func `a pointer to a missing value returns nil`(text: String) throws {
        let pointer = try #require(JSONPointer(text))
        #expect(try JSON(parsing: document)[pointer] == nil)
        #expect(JSONParser.position(of: pointer, in: document) == nil)
    }

    @Test(arguments: ["foo", "/~", "/~2", "/a~", "#/foo", " /foo", "/~~0"])
    func `an invalid pointer is rejected`(text: String) {
        #expect(JSONPointer(text) == nil)
    }

    @Test func `tokens are escaped once and in the right order`() throws {
        for token in ["~1", "~0", "~", "/", "~01", "a/b~c", "", "e\u{301}", "/\u{301}", "~\u{301}"] {
            let pointer = JSONPointer(tokens: ["x", token])
            let again = try #require(JSONPointer(pointer.description))
            #expect(again == pointer && again.tokens.count == 2)
        }
        #expect(JSONPointer(tokens: ["\u{E9}"]) != JSONPointer(tokens: ["e\u{301}"]))
    }

    @Test func `a JSON pointer locates a value or its key in the text`() throws {
        let text = bytes("{\n  \"a\": [1,\n    {\"b\" : 2}],\n\"é\": 3, \"c\": 4}")
        func place(_ pointer: String, key: Bool = false) throws -> JSONPosition? {
            JSONParser.position(of: try #require(JSONPointer(pointer)), key: key, in: text)
        }
        func at(_ line: Int, _ column: Int) -> JSONPosition {
            var position = JSONPosition()
            position.line = line
            position.column = column
            return position
        }
        #expect(try place("") == at(1, 1))
        #expect(try place("/a") == at(2, 8))
        #expect(try place("/a", key: true) == at(2, 3))
        #expect(try place("/a/1") == at(3, 5))
        #expect(try place("/a/1/b") == at(3, 12))
        #expect(try place("/a/1/b", key: true) == at(3, 6))
        #expect(try place("/a/1", key: true) == at(3, 5))
        #expect(try place("/c") == at(4, 15))
    }

    @Test(arguments: ["#/%", "#/%4", "#/%zz", "#/%ff", "#a", "a", "##", "#/~", "/%7E2"])
    func `an invalid fragment is rejected`(text: String) {
        #expect(JSONPointer(uriFragment: text) == nil)
    }

    @Test func `fragments are encoded once, and decoded with or without the number sign`() throws {
        for token in ["%41", "é", "e\u{301}", " ", "#", "?", "~/", "\0", "\u{202E}", "[]"] {
            let pointer = JSONPointer(tokens: [token, ""])
            #expect(JSONPointer(uriFragment: pointer.uriFragment) == pointer)
            #expect(JSONPointer(uriFragment: String(pointer.uriFragment.dropFirst())) == pointer)
            #expect(pointer.uriFragment.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F })
        }
        #expect(JSONPointer(uriFragment: "#") == [] && JSONPointer(uriFragment: "") == [])
        #expect(JSONPointer(uriFragment: "#/é")?.tokens == ["é"])
    }

    @Test func `a pointer is encoded as its text`() throws {
        let pointers: [JSONPointer] = [[], ["a/b", "0"], ["~"]]
        let text = try JSONEncoder().encode(pointers)
        #expect(try JSONDecoder().decode([JSONPointer].self, from: text) == pointers)
        #expect(throws: DecodingError.self) { try JSONDecoder().decode([JSONPointer].self, from: bytes(#"["a"]"#)) }
    }

    @Test func `a pointer is a prefix of longer pointers`() {
        let pointer: JSONPointer = ["a", "\u{E9}"]
        #expect(pointer.isPrefix(of: pointer) && pointer.isPrefix(of: ["a", "\u{E9}", "b"]))
        #expect(JSONPointer().isPrefix(of: pointer) && !pointer.isPrefix(of: ["a"]))
        #expect(!pointer.isPrefix(of: ["a", "e\u{301}", "b"]) && !JSONPointer(tokens: ["a"]).isPrefix(of: ["ab"]))
    }
}
