import ConvoySupport
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
}
