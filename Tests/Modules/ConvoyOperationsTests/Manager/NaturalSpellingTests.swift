import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// What programs write without looking anything up. Each test compiles the natural spelling, and checks its effect.
@Suite struct NaturalSpellingTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.echo(at: "/echo")
        manager = HTTPRequestOperationManager(baseURL: server.url(""))
        manager.completionQueue = testQueue
    }

    private func query() throws -> [String] {
        let query = try #require(server.requests.last).query ?? ""
        return query.split(separator: "&").map { $0.removingPercentEncoding ?? "" }.sorted()
    }

    @Test func `a JSON value is read by keys and indices`() async throws {
        server.route("GET", "/films", .json(text: #"{"films": [{"title": "Dawn", "year": 1928}]}"#))
        let json: JSON = try await manager.get("films")
        #expect(json["films"]?[0]?["title"] == "Dawn" && json["films"]?[0]?["year"] == 1928)
        #expect(json["films"]?[1] == nil && json["series"]?["title"] == nil)
    }

    @Test func `parameters are a literal with values of any type`() async throws {
        struct Range: Encodable { let from = 1, to = 2 }
        enum Order: String { case newest }
        let (page, team, cursor): (Int, String?, String?) = (2, "red", nil)
        let (identifiers, tags): ([Int], Set<String>) = ([7, 8, 9], ["a"])
        try await manager.get(
            "echo",
            parameters: [
                "page": page, "team": team, "cursor": cursor, "order": Order.newest, "range": Range(),
                "ids": identifiers[1...], "last": identifiers.suffix(1), "tags": tags, "letters": "ab".map(String.init),
                "since": Date(timeIntervalSince1970: 0), "last3": identifiers.reversed().lazy.map { $0 },
                "nested": ["depth": 1, "name": "x", "none": nil, "list": [1, "2"]], "text": "abc".dropFirst(), "ok": true,
            ])
        #expect(
            try query() == [
                "ids[]=8", "ids[]=9", "last3[]=7", "last3[]=8", "last3[]=9", "last[]=9", "letters[]=a", "letters[]=b",
                "nested[depth]=1", "nested[list][]=1", "nested[list][]=2", "nested[name]=x", "ok=1", "order=newest",
                "page=2", "range[from]=1", "range[to]=2", "since=1970-01-01 00:00:00 +0000", "tags=a", "team=red",
                "text=bc",
            ])
        manager.requestSerializer = JSONRequestSerializer()
        try await manager.post("echo", parameters: [1, "two", page, cursor, ["three": team]])
        #expect(server.requests.last?.text == #"[1,"two",2,null,{"three":"red"}]"#)
        try await manager.post("echo", parameters: ["key": 1, "key": 2])
        #expect(server.requests.last?.text == #"{"key":2}"#)
    }

    @Test func `parameters are omitted by nil, and empty by an empty literal`() async throws {
        manager.requestSerializer = JSONRequestSerializer()
        for isFiltered in [true, false] {
            try await manager.post("echo", parameters: isFiltered ? ["a": 1] : nil)
            #expect(server.requests.last?.text == (isFiltered ? #"{"a":1}"# : ""))
        }
        try await manager.post("echo", parameters: [:])
        #expect(server.requests.last?.text == "{}")
        try await manager.post("echo", parameters: [])
        #expect(server.requests.last?.text == "[]")
    }

    @Test func `a dictionary, an array, a tree and a value in variables are parameters`() async throws {
        struct Filter: Encodable { let color = "red" }
        let dictionary: [String: Any] = ["color": "red"]
        let (strings, tree): ([String: String], ParameterValue) = (["color": "red"], ["color": "red"])
        let all: [RequestParameters] = [
            .init(dictionary), .init(strings), .init(tree), .encoding(Filter()), .encoding(strings), .encoding(tree),
        ]
        for parameters in all {
            try await manager.get("echo", parameters: parameters)
            #expect(try query() == ["color=red"])
        }
        manager.requestSerializer = JSONRequestSerializer()
        try await manager.post("echo", parameters: .init([1, 2].map { $0 * 2 }))
        #expect(server.requests.last?.text == "[2,4]")
    }

    @Test func `the key of a certificate can be pinned`() throws {
        let root = try TestCertificate.root()
        let certificate = try Certificate(derData: root.derData)
        let policy = try SecurityPolicy(publicKeyPins: [certificate.publicKeyPin])
        #expect(policy == (try SecurityPolicy(publicKeyPins: [root.publicKeyPin])))
        #expect(throws: SecurityTextError.unreadableKey) { try SecurityPolicy(publicKeyPins: [PublicKeyPin?.none]) }
    }

    @Test func `an operation can be created with a response serializer`() async throws {
        server.route("GET", "/page", .text("page"))
        let operation = try manager.makeOperation(
            .get, "page", parameters: ["a": 1], responseSerializer: StringResponseSerializer())
        try await manager.enqueue(operation).finished()
        #expect(operation.responseObject as? String == "page")
    }

    @Test func `an operation that depends on itself fails with a cycle`() async throws {
        let operation = try manager.makeOperation(.get, "echo")
        operation.addDependency(operation)
        manager.enqueue(operation)
        await #expect(throws: URLError.self) { try await operation.finished() }
        #expect(operation.cancellationReason as? RequestOperationQueueError == .dependencyCycle(count: 1))
    }

    @Test func `the Progress of an upload counts the bytes that are sent`() async throws {
        let gate = TestServer.Gate()
        defer { gate.open() }
        server.route("POST", "/upload", .bytes(Data(count: 1000), type: "application/octet-stream").held(by: gate))
        let operation = try manager.makeOperation(
            .post, "upload", body: Data(count: 200_000), responseSerializer: HTTPResponseSerializer())
        let progress = operation.progress
        manager.enqueue(operation)
        try await waitUntil("the upload") { progress.completedUnitCount == 200_000 && progress.totalUnitCount == 200_000 }
        #expect(progress.fractionCompleted == 1 && !operation.isFinished)
        gate.open()
        try await operation.finished()
        try await waitUntil("the response") { progress.completedUnitCount == 201_000 && progress.totalUnitCount == 201_000 }
        let late = operation.progress
        #expect(late === progress)
    }

    @Test func `a form takes data with a name`() async throws {
        try await manager.post("echo") { form in
            form.append(data: Data("Dawn".utf8), name: "title")
            form.append(data: Data("{}".utf8), name: "meta", mimeType: "application/json")
            form.append(data: Data([1]), name: "photo", fileName: "dawn.png")
            form.append(data: Data([2]), name: "raw", fileName: "raw", mimeType: "x/y")
        }
        let text = try #require(server.requests.last).text
        for part in [
            "Content-Disposition: form-data; name=\"title\"\r\n\r\nDawn\r\n",
            "Content-Disposition: form-data; name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{}\r\n",
            "Content-Disposition: form-data; name=\"photo\"; filename=\"dawn.png\"\r\nContent-Type: image/png\r\n\r\n\u{1}\r\n",
            "Content-Disposition: form-data; name=\"raw\"; filename=\"raw\"\r\nContent-Type: x/y\r\n\r\n\u{2}\r\n",
        ] { #expect(text.contains(part), "\(part)") }
    }
}
