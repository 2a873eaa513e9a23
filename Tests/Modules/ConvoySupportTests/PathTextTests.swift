import ConvoySupport
import Foundation
import Testing

struct PathTextTests {
    @Test(arguments: [
        ("x", ".", "x"), ("xy", ".", "xy"), ("", ".", ""), ("/", "/", ""), ("//", "/", ""), ("/x", "/", "x"),
        ("a/b", "a", "b"), ("a/", "a", ""), ("/a/b/c", "/a/b", "c"), ("日/e\u{301}", "日", "e\u{301}"),
        ("a/\u{301}b", "a", "\u{301}b"),
    ])
    func `a path has a directory and a name`(_ path: String, _ directory: String, _ name: String) {
        #expect(Array(PathText.directory(of: path).utf8) == Array(directory.utf8))
        #expect(Array(PathText.name(of: path).utf8) == Array(name.utf8))
    }

    @Test(arguments: [("", "x", "x"), (".", "x", "x"), ("a", "x", "a/x"), ("a/", "x", "a/x"), ("/", "x", "/x")])
    func `a name is joined to a directory`(_ directory: String, _ name: String, _ path: String) {
        #expect(PathText.join(directory, name) == path)
    }

    @Test(arguments: [
        "file:///a/b", "file:///a%20b", "file:///%C3%A9", "file:///a/b/", "file:///", "file:///a/.", "file:///a/..",
        "file:///a/b.", "file:////a//b", "file:///a;b", "file:///a?b", "file:///a#b", "file://localhost/a", "FILE:///a",
        "file:a", "file:", "http://example.com/a",
    ])
    func `a file URL has the path that Foundation returns`(_ text: String) throws {
        let url = try #require(URL(string: text))
        let path = url.isFileURL && !url.hasDirectoryPath ? url.path : nil
        #expect(PathText.path(ofFile: url) == path)
    }

    @Test(arguments: [
        ("a/b", ["a", "b"]), ("/a//b/", ["", "a", "", "b", ""]), ("", [""]), ("../\u{301}", ["..", "\u{301}"]),
        ("a\u{301}/é", ["a\u{301}", "é"]),
    ]) func `path components are the system's`(_ path: String, _ components: [String]) {
        #expect(PathText.components(of: path) == components)
    }
}
