import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct HTTPRequestSerializerTests {
    private let serializer = HTTPRequestSerializer()

    private func address(
        _ base: String, _ parameters: ParameterValue?, _ serializer: HTTPRequestSerializer = .init()
    ) throws -> String? {
        try serializer.request(method: .get, url: url(base), parameters: parameters).url?.absoluteString
    }

    // MARK: URLs

    @Test(arguments: [
        ("http://a/b", "http://a/b?k=v"),
        ("http://a", "http://a?k=v"),
        ("http://a/b?", "http://a/b?k=v"),
        ("http://a/b?x=1", "http://a/b?x=1&k=v"),
        ("http://a/b?x=1&", "http://a/b?x=1&k=v"),
        ("http://a/b#frag", "http://a/b?k=v#frag"),
        ("http://a/b?x=1#frag?not=query", "http://a/b?x=1&k=v#frag?not=query"),
        ("http://a/b?#", "http://a/b?k=v#"),
        ("http://a/b?x=%20+&y=%5B1%5D", "http://a/b?x=%20+&y=%5B1%5D&k=v"),
    ])
    func `a query is appended to the existing one, before the fragment`(base: String, expected: String) throws {
        #expect(try address(base, ["k": "v"]) == expected)
    }

    @Test(arguments: ["http://a/b", "http://a/b?", "http://a/b?x=1", "http://a/b#frag"])
    func `nil parameters and an empty dictionary do not change the URL`(base: String) throws {
        #expect(try address(base, nil) == base)
        #expect(try address(base, [:]) == base)
        #expect(try address(base, ["empty": []]) == base)
    }

    @Test(arguments: ["GET", "HEAD", "DELETE", "get", "Delete"])
    func `GET, HEAD and DELETE send their parameters in the URL`(method: String) throws {
        let request = try serializer.request(method: HTTPMethod(method), url: exampleURL, parameters: ["k": 1])
        #expect(request.url?.absoluteString == "http://example.com/path?k=1")
        #expect(request.httpBody == nil)
        #expect(request.value(forHTTPHeaderField: "Content-Type") == nil)
    }

    @Test func `the set of methods with parameters in the URL can be changed`() throws {
        var serializer = serializer
        serializer.httpMethodsEncodingParametersInURI = [.get, .head]
        let request = try serializer.request(method: .delete, url: exampleURL, parameters: ["k": 1])
        #expect(request.url == exampleURL)
        #expect(text(request.httpBody) == "k=1")
    }

    @Test func `a custom closure creates the query of URLs and bodies`() throws {
        var serializer = serializer
        serializer.queryStringSerialization = { request, parameters in
            "\(request.httpMethod ?? "")#\(parameters["k"]?.description ?? "")"
        }
        #expect(try address("http://a/b?x=1#f", ["k": 1], serializer) == "http://a/b?x=1&GET%231#f")
        #expect(text(try serializer.request(method: .post, url: exampleURL, parameters: ["k": 1]).httpBody) == "POST#1")
        serializer.queryStringStyle = .brackets
        #expect(serializer.queryStringSerialization == nil)
    }

    @Test func `a custom query is repaired and keeps its escapes`() throws {
        var serializer = serializer
        serializer.queryStringSerialization = { _, _ in "q=a b%20c%&é=[#]" }
        #expect(try address("http://a/b?x=%20", [:], serializer) == "http://a/b?x=%20&q=a%20b%20c%25&%C3%A9=%5B%23%5D")
    }

    @Test func `an error thrown by the query closure reaches the caller unchanged`() {
        struct Mine: Error {}
        var serializer = serializer
        serializer.queryStringSerialization = { _, _ in throw Mine() }
        #expect(throws: Mine.self) { try serializer.request(method: .get, url: exampleURL, parameters: [:]) }
        #expect(throws: Mine.self) { try serializer.request(method: .post, url: exampleURL, parameters: [:]) }
    }

    // MARK: Form bodies

    @Test func `the parameters of a POST are sent as a form`() throws {
        let request = try serializer.request(method: .post, url: exampleURL, parameters: ["b": [1, 2], "a": "x y"])
        #expect(text(request.httpBody) == "a=x%20y&b%5B%5D=1&b%5B%5D=2")
        #expect(request.value(forHTTPHeaderField: "Content-Type") == "application/x-www-form-urlencoded")
        #expect(request.url == exampleURL)
    }

    @Test(arguments: [nil, [:]] as [ParameterValue?])
    func `a POST without parameters has a content type and an empty body`(parameters: ParameterValue?) throws {
        let request = try serializer.request(method: .post, url: exampleURL, parameters: parameters)
        #expect(request.httpBody == Data())
        #expect(request.value(forHTTPHeaderField: "Content-Type") == "application/x-www-form-urlencoded")
    }

    @Test func `an existing content type is kept`() throws {
        let request = try serializer.request(
            method: .put, url: exampleURL, parameters: ["a": 1], headers: ["content-type": "text/x-mine"])
        #expect(request.value(forHTTPHeaderField: "Content-Type") == "text/x-mine")
    }

    @Test func `a form uses the serializer's encoding, and fails if it cannot be encoded`() throws {
        var serializer = serializer
        serializer.queryStringSerialization = { _, _ in "k=é" }
        serializer.stringEncoding = .isoLatin1
        #expect(
            try serializer.request(method: .post, url: exampleURL, parameters: [:]).httpBody
                == Data([0x6B, 0x3D, 0xE9]))
        serializer.stringEncoding = .ascii
        #expect(
            reason(failure { try serializer.request(method: .post, url: exampleURL, parameters: [:]) }) == .invalidText)
    }

    // MARK: Properties

    @Test func `only properties that were set are applied`() throws {
        let plain = URLRequest(url: exampleURL)
        let untouched = try serializer.request(method: .get, url: exampleURL)
        #expect(untouched.timeoutInterval == plain.timeoutInterval)
        #expect(untouched.cachePolicy == plain.cachePolicy)
        #expect(untouched.httpShouldHandleCookies == plain.httpShouldHandleCookies)

        var serializer = serializer
        serializer.timeoutInterval = 7
        serializer.cachePolicy = .reloadIgnoringLocalCacheData
        serializer.httpShouldHandleCookies = false
        serializer.allowsCellularAccess = false
        serializer.networkServiceType = .background
        let request = try serializer.request(method: .get, url: exampleURL)
        #expect(request.timeoutInterval == 7)
        #expect(request.cachePolicy == .reloadIgnoringLocalCacheData)
        #expect(!request.httpShouldHandleCookies)
        #expect(!request.allowsCellularAccess)
        #expect(request.networkServiceType == .background)

        let given = try serializer.request(bySerializing: plain, with: nil)
        #expect(given.timeoutInterval == plain.timeoutInterval)
    }

    @Test func `the passed request is not changed`() throws {
        var original = URLRequest(url: exampleURL)
        original.httpMethod = "POST"
        _ = try serializer.request(bySerializing: original, with: ["a": 1])
        #expect(original.httpBody == nil)
        #expect(original.allHTTPHeaderFields?.isEmpty ?? true)
    }

    @Test func `bodies are compressed on request, and only if they become smaller`() throws {
        var serializer = serializer
        serializer.compressesBody = true
        let long = String(repeating: "abc", count: 5000)
        let request = try serializer.request(method: .post, url: exampleURL, parameters: ["k": .string(long)])
        let body = try #require(request.httpBody)
        #expect(request.value(forHTTPHeaderField: "Content-Encoding") == "gzip")
        #expect(body.starts(with: [0x1F, 0x8B, 8]))
        #expect(body.count < 200)
        #expect(try text(inflate(body)) == "k=" + long)

        let short = try serializer.request(method: .post, url: exampleURL, parameters: ["k": 1])
        #expect(text(short.httpBody) == "k=1")
        #expect(short.value(forHTTPHeaderField: "Content-Encoding") == nil)

        let own = try serializer.request(
            method: .post, url: exampleURL, parameters: ["k": .string(long)], headers: ["content-encoding": "identity"])
        #expect(text(own.httpBody) == "k=" + long)
    }

    @Test func `many threads can use one serializer while copies of it change`() async throws {
        let serializer = serializer
        let results = try await withThrowingTaskGroup(of: String?.self) { group in
            for index in 0..<200 {
                group.addTask {
                    var copy = serializer
                    copy.setValue("\(index)", forHTTPHeaderField: "X-Index")
                    _ = try copy.request(method: .get, url: exampleURL, parameters: ["i": 1])
                    return try serializer.request(method: .get, url: exampleURL).value(forHTTPHeaderField: "X-Index")
                }
            }
            return try await group.reduce(into: [String?]()) { $0.append($1) }
        }
        #expect(results.allSatisfy { $0 == nil })
    }
}
