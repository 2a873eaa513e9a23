import ConvoyDownloads
import ConvoyTransport
import Foundation
import Testing

struct SuggestedNameTests {
    private func name(_ url: String, _ dispositions: String...) throws -> String {
        let head = ResponseHead(
            url: try #require(URL(string: url)), statusCode: 200, headers: dispositions.map { ("content-disposition", $0) })
        return SuggestedName.name(for: head)
    }

    @Test(arguments: [
        ("http://h/a/b.txt", "b.txt"), ("http://h/a.txt?b=/c#/d", "a.txt"), ("http://h/a%20b", "a b"),
        ("http://h/a/", "index.html"), ("http://h/a//", "index.html"), ("http://h", "index.html"),
        ("http://h/?a", "index.html"),
        ("http://h/%2Fetc%2Fpasswd", "passwd"), ("http://h/a%5Cb", "b"), ("http://h/x/%2e%2e%2f", "index.html"),
        ("http://h/.bashrc", "_bashrc"), ("http://h/caf%C3%A9", "café"), ("http://h/caf%E9", "café"),
        ("http://h/a%00b", "a_b"), ("http://h/100%25", "100%"), ("http://h/a;v=1", "a;v=1"),
    ])
    func `the name is taken from the URL's path if no field provides one`(_ url: String, _ expected: String) throws {
        #expect(try name(url) == expected)
        #expect(try name(url, "attachment") == expected)
        #expect(try name(url, "attachment; filename=..") == expected)
    }

    @Test func `Content-Disposition takes precedence over the URL, and its name is made safe`() throws {
        #expect(try name("http://h/a", "attachment; filename=\"../b.txt\"") == "b.txt")
        #expect(try name("http://h/a", "inline; filename=.b") == "_b")
        #expect(try name("http://h/a", "attachment; filename*=UTF-8''%2Fx%2F%E2%82%AC") == "€")
        #expect(try name("http://h/a", "attachment", "attachment; filename=second") == "second")
    }

    @Test func `a name is shortened to the requested length`() throws {
        let url = try #require(URL(string: "http://h/" + String(repeating: "a", count: 400) + ".zip"))
        #expect(SuggestedName.name(for: url)?.utf8.count == FileName.maximumLength)
        #expect(SuggestedName.name(for: url, maximumLength: 120)?.hasSuffix("a.zip") == true)
        let head = ResponseHead(url: url, statusCode: 200, headers: [])
        #expect(SuggestedName.name(for: head, maximumLength: 120).utf8.count == 120)
    }
}
