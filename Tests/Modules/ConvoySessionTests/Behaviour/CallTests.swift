import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

/// Calls supported by both managers: parameters and bodies of any kind, and responses as values of any kind.
@Suite struct CallTests {
    let server: TestServer

    struct Item: Codable, Sendable, Equatable {
        var itemName: String
        var pageCount: Int?
    }

    enum Order: String { case newest }

    init() throws {
        server = try TestServer()
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            server.route(method, "/items", .json(text: #"{"item_name": "Nautilus", "page_count": 3}"#))
        }
    }

    private func api(_ kind: ManagerKind) -> any HTTPManager {
        let api = kind.make(server.url)
        api.decoder.keyDecodingStrategy = .convertFromSnakeCase
        api.encoder.keyEncodingStrategy = .convertToSnakeCase
        api.encoder.outputFormatting = .sortedKeys
        return api
    }

    private var sent: RecordedRequest { get throws { try #require(server.requests.last) } }

    private func query() throws -> [String] {
        (try sent.query ?? "").split(separator: "&").map { $0.removingPercentEncoding ?? String($0) }.sorted()
    }

    // MARK: Parameters

    @Test(arguments: ManagerKind.allCases)
    func `parameters can be variables of any type, and nil omits its key`(kind: ManagerKind) async throws {
        let api = api(kind)
        let (page, user, none): (Int, String, Int?) = (2, "ada", nil)
        try await api.get("items", parameters: ["page": page])
        #expect(try query() == ["page=2"])
        try await api.get("items", parameters: ["page": page, "user": user, "none": none, "tags": ["a", "b"]])
        #expect(try query() == ["page=2", "tags[]=a", "tags[]=b", "user=ada"])
        try await api.get("items", parameters: ["null": ParameterValue.null, "nil": nil, "order": Order.newest])
        #expect(try query() == ["null", "order=newest"])
        let texts = ["a": "b c"]
        try await api.get("items", parameters: .init(texts))
        #expect(try query() == ["a=b c"])
        let mixed: [String: Any] = ["n": 1, "d": 0.5, "on": true, "inner": ["x": user, "y": page] as [String: Any]]
        try await api.get("items", parameters: .init(mixed))
        #expect(try query() == ["d=0.5", "inner[x]=ada", "inner[y]=2", "n=1", "on=1"])
        try await api.get("items", parameters: .encoding(Item(itemName: "x", pageCount: nil)))
        #expect(try query() == ["item_name=x"])
        let optional: Item? = nil
        try await api.get("items", parameters: .encoding(optional))
        #expect(try sent.query == nil)
        let tree: ParameterValue = ["a": ["b": [1, "two"]]]
        try await api.get("items", parameters: .init(tree))
        #expect(try query() == ["a[b][]=1", "a[b][]=two"])
    }

    @Test(arguments: ManagerKind.allCases)
    func `parameters can be a literal of any depth`(kind: ManagerKind) async throws {
        let api = api(kind)
        let operation = try api.makeOperation(.get, "items", parameters: ["a": ["b": 1, "c": ["x", 2]], "d": "e"])
        try await api.enqueue(operation).finished()
        #expect(try query() == ["a[b]=1", "a[c][]=2", "a[c][]=x", "d=e"])
        func post(_ api: some HTTPManager) async {
            await withCheckedContinuation { continuation in
                api.post("items", parameters: ["a": ["b": 1, "c": "x"]], success: { _, _ in continuation.resume() })
            }
        }
        await post(api)
        #expect(try sent.text.removingPercentEncoding == "a[b]=1&a[c]=x")
        #expect(throws: NSError.self) { try api.makeOperation(.post, "items", parameters: .init(.double(.nan))).request }
    }

    @Test(arguments: ManagerKind.allCases)
    func `a value that cannot be sent is an error with its key`(kind: ManagerKind) async throws {
        let api = api(kind)
        final class Thing: Sendable {}
        let parameters: [String: Any] = ["outer": ["inner": Thing()]]
        let error = await #expect(throws: NSError.self) { try await api.get("items", parameters: .init(parameters)) }
        #expect(error?.domain == URLRequestSerializationErrorDomain)
        #expect(error?.localizedDescription.contains("outer.inner is of type Thing") == true)
        #expect(server.requests.isEmpty)
    }

    @Test func `Foundation objects are encoded as the values they represent`() throws {
        let value: [String: Any] = [
            "yes": NSNumber(value: true), "one": NSNumber(value: 1), "half": NSNumber(value: 0.5), "null": NSNull(),
            "max": NSNumber(value: UInt64.max), "text": NSString(string: "t"), "list": NSArray(array: [1, "x"]),
            "map": NSDictionary(dictionary: ["a": NSNumber(value: false)]), "byte": NSNumber(value: Int8(1)),
            "exact": NSDecimalNumber(string: "12345678901234567.89"),
        ]
        let expected: ParameterValue = [
            "yes": true, "one": 1, "half": 0.5, "null": .null, "max": .unsignedInteger(.max), "text": "t",
            "list": [1, "x"], "map": ["a": false], "byte": 1,
            "exact": .number(try #require(JSONNumber("12345678901234567.89"))),
        ]
        #expect(try ParameterValue.converting(value) == expected)
        #expect(try ParameterValue.converting([1, nil] as [Int?]) == [1, .null])
        #expect(try ParameterValue.converting(Optional<Int>.none) == nil)
        #expect(try ParameterValue.converting(["a": Optional(Optional<Int>.none), "b": Optional(Optional(1))]) == ["b": 1])
        #expect(try ParameterValue.converting(Set([1])) == .set([1]))
        #expect(try ParameterValue.converting(Float(0.1)) == 0.1)
    }

    @Test func `endlessly nested parameters are rejected`() throws {
        var deep: Any = 1
        for _ in 0..<(ParameterValue.maximumDepth + 2) { deep = ["d": deep] }
        #expect(throws: NSError.self) { try ParameterValue.converting(deep) }
    }

    @Test(arguments: ManagerKind.allCases)
    func `parameters are sent as a form by default, and as JSON on request`(kind: ManagerKind) async throws {
        let api = api(kind)
        try await api.post("items", parameters: ["a": 1])
        #expect(try sent.text == "a=1" && sent.headers["Content-Type"] == "application/x-www-form-urlencoded")
        api.requestSerializer = JSONRequestSerializer()
        try await api.post("items", parameters: ["a": 1])
        #expect(try sent.text == #"{"a":1}"# && sent.headers["Content-Type"] == "application/json")
    }

    /// A value whose encoding depends on every strategy of an encoder.
    struct Event: Codable, Sendable, Equatable {
        var startTime = Date(timeIntervalSince1970: 1_356_998_400.25)
        var allDates = [Date(timeIntervalSince1970: 0)]
        var rawData = Data([1, 2, 255])
        var ratio = 0.1
    }

    /// Returns the fields of a form with the members of an object.
    private static func fields(_ body: JSON) -> [String] {
        func text(_ value: JSON) -> String { if case .string(let text) = value { text } else { value.description } }
        guard case .object(let object) = body else { return [] }
        return object.members.flatMap { member in
            guard case .array(let values) = member.value else { return ["\(member.key)=\(text(member.value))"] }
            return values.map { "\(member.key)[]=\(text($0))" }
        }.sorted()
    }

    @Test(arguments: ManagerKind.allCases)
    func `a value is encoded alike as parameters, as a part of parameters, and as the body`(kind: ManagerKind) async throws {
        let dates: [JSONEncoder.DateEncodingStrategy?] = [
            nil, .deferredToDate, .iso8601, .secondsSince1970, .millisecondsSince1970,
            .custom { date, encoder in try "at \(date.timeIntervalSince1970)".encode(to: encoder) },
        ]
        for (number, strategy) in dates.enumerated() {
            let api = kind.make(server.url)
            if let strategy { api.encoder.dateEncodingStrategy = strategy }
            if number == 2 { api.encoder.keyEncodingStrategy = .convertToSnakeCase }
            try await api.post("items", body: Event())
            let body = try JSON(parsing: try sent.body)
            let flat = Self.fields(body)
            try await api.get("items", parameters: .encoding(Event()))
            #expect(try query() == flat, "\(number)")
            try await api.post("items", parameters: .encoding(Event()))
            #expect(try sent.text.split(separator: "&").map { $0.removingPercentEncoding ?? "" }.sorted() == flat)
            api.requestSerializer = JSONRequestSerializer()
            try await api.post("items", parameters: .encoding(Event()))
            #expect(try JSON(parsing: try sent.body) == body, "\(number)")
            try await api.post("items", parameters: ["event": Event(), "list": [Event()]])
            #expect(try JSON(parsing: try sent.body) == ["event": body, "list": [body]], "\(number)")
        }
    }

    @Test(arguments: ManagerKind.allCases)
    func `by default, dates are sent in the format of RFC 3339, and decoded from it`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        server.echo(at: "/echo")
        struct Answer: Decodable, Sendable { var text: String }
        api.requestSerializer = JSONRequestSerializer()
        let date = Event().startTime
        let answers: [Answer] = [
            try await api.post("echo", body: ["at": date]), try await api.post("echo", parameters: ["at": date]),
            try await api.post("echo", parameters: .encoding(["at": date])),
        ]
        for answer in answers {
            #expect(answer.text == #"{"at":"2013-01-01T00:00:00.250Z"}"#)
            server.route("/dates", .json(text: answer.text))
            #expect(try await api.get("dates", as: [String: Date].self) == ["at": date])
        }
        server.route("/dates", .json(text: #"["2013-01-01T02:00:00+02:00", 378691200]"#))
        let same = Date(timeIntervalSince1970: 1_356_998_400)
        #expect(try await api.get("dates", as: [Date].self) == [same, same])
        server.route("/dates", .json(text: #"["yesterday"]"#))
        await #expect(throws: HTTPError.self) { try await api.get("dates", as: [Date].self) }
        let never = ["at": Date(timeIntervalSince1970: 1e15)]
        await #expect(throws: EncodingError.self) { try await api.post("echo", body: never) }
        await #expect(throws: EncodingError.self) { try await api.post("echo", parameters: .encoding(never)) }
    }

    @Test(arguments: ManagerKind.allCases)
    func `a property list keeps the types of an encoded value`(kind: ManagerKind) async throws {
        let api = kind.make(server.url)
        api.requestSerializer = PropertyListRequestSerializer(format: .binary)
        try await api.post("items", parameters: .encoding(Event()))
        #expect(try PropertyListDecoder().decode(Event.self, from: try sent.body) == Event())
    }

    // MARK: Bodies

    @Test(arguments: ManagerKind.allCases)
    func `a body can be any encodable value, encoded by the manager's encoder`(kind: ManagerKind) async throws {
        let api = api(kind)
        let item = Item(itemName: "x", pageCount: 3)
        let answer: Item = try await api.post("items", parameters: ["draft": true], body: item)
        #expect(answer == Item(itemName: "Nautilus", pageCount: 3))
        #expect(try sent.text == #"{"item_name":"x","page_count":3}"# && query() == ["draft=1"])
        #expect(try sent.headers["Content-Type"] == "application/json")
        try await api.put("items", body: [item])
        #expect(try sent.method == "PUT" && sent.text == #"[{"item_name":"x","page_count":3}]"#)
        try await api.patch("items", body: ["a": 1], headers: ["Content-Type": "application/merge-patch+json"])
        #expect(try sent.headers["Content-Type"] == "application/merge-patch+json" && sent.text == #"{"a":1}"#)
        try await api.delete("items", body: Data([1, 2, 3]))
        #expect(try sent.body == Data([1, 2, 3]) && sent.headers["Content-Type"] == "application/octet-stream")
        try await api.post("items", body: try JSON(parsing: Data(#"{"b":1.10,"a":12345678901234567.89}"#.utf8)))
        #expect(try sent.text == #"{"b":1.10,"a":12345678901234567.89}"#)
        await #expect(throws: EncodingError.self) { try await api.post("items", body: ["x": Double.nan]) }
    }

    // MARK: Responses

    @Test(arguments: ManagerKind.allCases)
    func `a response is decoded as the requested type`(kind: ManagerKind) async throws {
        let api = api(kind)
        let item: Item = try await api.get("items")
        #expect(item == Item(itemName: "Nautilus", pageCount: 3))
        let data: Data = try await api.get("items")
        let text: String = try await api.get("items")
        #expect(String(decoding: data, as: UTF8.self) == text && text.hasPrefix("{"))
        let json: JSON = try await api.get("items")
        #expect(json[try #require(JSONPointer("/page_count"))] == .number(JSONNumber(3)))
        let operation = try await api.get("items")
        #expect(operation.statusCode == 200 && (operation.responseObject as? [String: Any])?.count == 2)
    }

    @Test(arguments: ManagerKind.allCases)
    func `data and text accept any content type, unless one is required`(kind: ManagerKind) async throws {
        let api = api(kind)
        server.route("/page", .bytes(Data("<p>".utf8), type: "text/html"))
        #expect(try await api.get("page", as: String.self) == "<p>")
        #expect(try await api.get("page", as: Data.self) == Data("<p>".utf8))
        await #expect(throws: NSError.self) { try await api.get("page", as: Item.self) }
        api.responseSerializer.acceptableContentTypes = ["text/plain"]
        await #expect(throws: NSError.self) { try await api.get("page", as: String.self) }
    }

    @Test(arguments: ManagerKind.allCases)
    func `an empty response is empty text, empty data, nil or an error`(kind: ManagerKind) async throws {
        let api = api(kind)
        server.route("DELETE", "/gone", .status(204))
        try await api.delete("gone")
        #expect(try await api.delete("gone", as: Data.self).isEmpty)
        #expect(try await api.delete("gone", as: String.self) == "")
        #expect(try await api.delete("gone", as: Item?.self) == nil)
        await #expect(throws: URLError.self) { try await api.delete("gone", as: Item.self) }
    }

    @Test(arguments: ManagerKind.allCases)
    func `the response serializer's settings also apply to awaited values`(kind: ManagerKind) async throws {
        let api = api(kind)
        server.route("/teapot", .json(text: #"{"item_name": "tea"}"#, status: 418))
        server.route("/other", .bytes(Data(#"{"item_name": "tea"}"#.utf8), type: "application/vnd.tea"))
        await #expect(throws: NSError.self) { try await api.get("teapot", as: Item.self) }
        await #expect(throws: NSError.self) { try await api.get("other", as: Item.self) }
        api.responseSerializer.acceptableStatusCodes = [418]
        #expect(try await api.get("teapot", as: Item.self).itemName == "tea")
        api.responseSerializer.acceptableStatusCodes = .successful
        api.responseSerializer.acceptableContentTypes?.insert("application/vnd.tea")
        #expect(try await api.get("other", as: Item.self).itemName == "tea")
        api.responseSerializer.limits.maximumBodySize = 5
        await #expect(throws: (any Error).self) { try await api.get("items", as: Item.self) }
    }

    @Test(arguments: ManagerKind.allCases)
    func `a handler receives the value or the error as a result`(kind: ManagerKind) async throws {
        let api = api(kind)
        func results(_ api: some HTTPManager) async -> (name: String, isError: Bool) {
            await withCheckedContinuation { continuation in
                api.value(.get, "items", parameters: ["page": 1], as: Item.self) { [api] result in
                    api.value(.post, "missing", body: ["a": 1], as: Item.self) { other in
                        let isError = if case .failure = other { true } else { false }
                        continuation.resume(returning: ((try? result.get().itemName) ?? "", isError))
                    }
                }
            }
        }
        #expect(await results(api) == ("Nautilus", true))
    }

    @Test(arguments: ManagerKind.allCases)
    func `a URL is accepted as well as a string`(kind: ManagerKind) async throws {
        let api = api(kind)
        let url = try #require(URL(string: "\(server.url)/items?x=1"))
        try await api.get(url, parameters: ["y": 2])
        #expect(try query() == ["x=1", "y=2"])
        try await api.get(try #require(URL(string: "items")))
        #expect(try sent.path == "/items")
        try await api.get("/items/".split(separator: "/")[0])
        #expect(try sent.path == "/items")
    }

    // MARK: Time

    @Test(arguments: ManagerKind.allCases)
    func `each kind of timeout limits the idle time, the connection or the total time`(kind: ManagerKind) async throws {
        let api = api(kind)
        server.route("/drip", .drip(Data(repeating: 1, count: 400), chunk: 1, interval: 0.05))
        server.route("/never", .text("x").stalls(afterBytes: 0))
        func code(_ url: String, _ timeout: RequestTimeout?) async -> URLError.Code? {
            do {
                _ = try await api.get(url, timeout: timeout, as: Data.self)
                return nil
            } catch {
                return (error as? URLError)?.code
            }
        }
        // Bytes keep arriving, so only the total time can be exceeded.
        #expect(await code("drip", 0.3) == .timedOut)
        #expect(await code("never", .idle(0.2)) == .timedOut)
        #expect(await code("items", RequestTimeout(idle: 20, total: 20)) == nil)
        api.operationManager.idleTimeout = 0.2
        #expect(await code("never", nil) == .timedOut)
        #expect(await code("never", .total(0.3)) == .timedOut)
        api.operationManager.idleTimeout = nil
        api.requestSerializer.timeoutInterval = 0.2
        #expect(await code("never", nil) == .timedOut)
    }
}
