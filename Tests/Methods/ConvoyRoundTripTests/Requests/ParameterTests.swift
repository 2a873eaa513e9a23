import ConvoyOperations
import ConvoySerialization
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Queries, forms, JSON and property lists, parsed by an independent server.
@Suite(.needsHttpbin) struct ParameterTests {
    let manager: HTTPRequestOperationManager

    init() throws { manager = try Shared.manager() }

    /// Every kind of special character in queries and forms.
    static let awkward = "a b+c&d=e;f/g?h#i%20j\"k'l\\m\u{7F}n\r\no é 漢字 👩🏽‍🚀 \u{1D11E}"

    static let nested: ParameterValue = [
        "user": ["name": "Ada", "tags": ["x", "y"], "address": ["city": "London"]], "ok": true, "n": -3, "pi": 3.5,
        "text": .string(awkward), "empty": "",
    ]
    /// The same values, parsed without nesting.
    static let flat: [String: JSON] = [
        "user[name]": "Ada", "user[tags][]": ["x", "y"], "user[address][city]": "London", "ok": "1", "n": "-3",
        "pi": "3.5", "text": .string(awkward), "empty": "",
    ]

    @Test func `a nested form decodes back to its parameters`() async throws {
        let echo: Echo = try await manager.post("post", parameters: .init(Self.nested))
        #expect(echo.form == Self.flat)
        #expect(echo.header("Content-Type") == "application/x-www-form-urlencoded")
        #expect(echo.args.isEmpty && echo.data == "")
    }

    @Test func `a nested query decodes back to its parameters`() async throws {
        let echo: Echo = try await manager.get("get?first=1#fragment", parameters: .init(Self.nested))
        var expected = Self.flat
        expected["first"] = "1"
        #expect(echo.args == expected)
    }

    @Test(
        arguments: [
            (QueryStringStyle.brackets, ["a[]": ["1", "2"], "b[c]": "3"]),
            (.indices, ["a[0]": "1", "a[1]": "2", "b[c]": "3"]), (.noBrackets, ["a": ["1", "2"], "b[c]": "3"]),
            (.dots, ["a[0]": "1", "a[1]": "2", "b.c": "3"]),
        ] as [(QueryStringStyle, [String: JSON])])
    func `every query style decodes back to its parameters`(style: QueryStringStyle, expected: [String: JSON]) async throws {
        var serializer = HTTPRequestSerializer()
        serializer.queryStringStyle = style
        manager.requestSerializer = serializer
        let parameters: ParameterValue = ["a": [1, 2], "b": ["c": 3]]
        let get: Echo = try await manager.get("get", parameters: .init(parameters))
        let post: Echo = try await manager.post("post", parameters: .init(parameters))
        #expect(get.args == expected && post.form == expected)
    }

    @Test func `an empty dictionary adds nothing`() async throws {
        let get: Echo = try await manager.get("get", parameters: [:])
        #expect(get.args.isEmpty && !get.url.contains("?"))
        let post: Echo = try await manager.post("post", parameters: [:])
        #expect(post.form == [:] && post.header("Content-Length") == "0")
    }

    @Test func `a JSON body decodes to the same tree`() async throws {
        manager.requestSerializer = JSONRequestSerializer()
        let parameters: ParameterValue = [
            "name": "Ada", "nothing": .null, "ok": true, "n": -3, "pi": 3.5, "list": [1, "two", [.null, false]],
            "deep": ["er": ["still": [:]]], "text": .string(Self.awkward),
        ]
        let echo: Echo = try await manager.post("post", parameters: .init(parameters))
        #expect(
            echo.json == [
                "name": "Ada", "nothing": nil, "ok": true, "n": -3, "pi": 3.5, "list": [1, "two", [nil, false]],
                "deep": ["er": ["still": [:]]], "text": .string(Self.awkward),
            ])
        #expect(echo.header("Content-Type") == "application/json" && echo.form == [:])
    }

    @Test func `an encodable value is sent as JSON`() async throws {
        struct User: Codable, Equatable, Sendable {
            var name: String
            var ages: [Int]
            var note: String?
        }
        struct Answer: Decodable, Sendable { var json: User }
        manager.requestSerializer = JSONRequestSerializer()
        let user = User(name: "Ada 👩🏽‍🚀", ages: [1, 2, 3], note: nil)
        let answer: Answer = try await manager.put("put", parameters: .encoding(user))
        #expect(answer.json == user)
    }

    @Test(arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary])
    func `a property list decodes to the same tree`(format: PropertyListSerialization.PropertyListFormat) async throws {
        manager.requestSerializer = PropertyListRequestSerializer(format: format)
        let parameters: ParameterValue = [
            "name": "Ada é", "list": [1, 2.5, true], "bytes": .data(Data([0, 1, 254, 255])),
            "date": .date(Date(timeIntervalSince1970: 1_000_000)),
        ]
        let echo: Echo = try await manager.post("anything", parameters: .init(parameters))
        #expect(echo.header("Content-Type") == "application/x-plist")
        let body = try #require(echo.body)
        let tree = try PropertyListSerialization.propertyList(from: body, options: [], format: nil)
        let read = try #require(tree as? [String: Any])
        #expect(read["name"] as? String == "Ada é")
        #expect(read["bytes"] as? Data == Data([0, 1, 254, 255]))
        #expect(read["date"] as? Date == Date(timeIntervalSince1970: 1_000_000))
        let list = try #require(read["list"] as? [Any])
        #expect(list.count == 3 && list[1] as? Double == 2.5 && list[2] as? Bool == true)
    }

    @Test func `a compressed body is labelled and can be read by gzip`() async throws {
        var serializer = JSONRequestSerializer()
        serializer.http.compressesBody = true
        manager.requestSerializer = serializer
        let parameters: ParameterValue = ["text": .string(String(repeating: "all work and no play ", count: 500))]
        let echo: Echo = try await manager.post("anything", parameters: .init(parameters))
        #expect(echo.header("Content-Encoding") == "gzip")
        #expect(echo.header("Content-Type") == "application/json")
        let body = try #require(echo.body)
        #expect(echo.header("Content-Length") == "\(body.count)" && body.count < 1_000)
        let directory = try TemporaryDirectory()
        let file = try directory.write(body, to: "body.gz")
        let plain = try ProcessRunner.run("gzip", ["-d", "-c", file.path])
        #expect(plain.status == 0)
        serializer.http.compressesBody = false
        let url = try manager.url(for: "anything")
        #expect(plain.output == (try serializer.request(method: .post, url: url, parameters: parameters).httpBody))
    }
}
