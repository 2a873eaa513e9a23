import Convoy
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// The code in the articles, which must equal the code that is compiled and run here.
@Suite struct ArticleTests {
    private static let catalogue = SwiftCompiler.root.appendingPathComponent("Sources/Convoy/Convoy.docc")

    @Test func `the code in each article matches the tested code`() throws {
        var tested: [String: [String]] = [:]
        let here = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        for name in [
            "ArticleCode", "ArticleMigrationCode", "ArticleTrustCode", "ArticlePinTests", "ArticleCredentialCode",
            "ArticleStoreCode", "ArticleDownloadCode", "ArticleSessionsCode", "ArticleStreamsCode",
            "ArticleRealTimeTests", "ArticleRecipeTests", "ReadmeSnippets",
        ] {
            let source = try String(contentsOf: here.appendingPathComponent("\(name).swift"), encoding: .utf8)
            for (article, block) in Self.marked(source) { tested[article, default: []].append(block) }
        }
        var written: [String: [String]] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: Self.catalogue.path) where name.hasSuffix(".md") {
            let text = try String(contentsOf: Self.catalogue.appendingPathComponent(name), encoding: .utf8)
            let blocks = Self.fenced(text)
            if !blocks.isEmpty { written[String(name.dropLast(3))] = blocks }
        }
        #expect(written.count == 22)
        #expect(written.keys.sorted() == tested.keys.sorted())
        for (article, blocks) in written {
            let others = Set(blocks).symmetricDifference(tested[article] ?? [])
            #expect(others.isEmpty, "\(article):\n\(others.joined(separator: "\n\n"))")
        }
    }

    /// Returns the code between each pair of marks, without its indentation, and the name of its article.
    private static func marked(_ source: String) -> [(article: String, block: String)] {
        var blocks: [(article: String, block: String)] = []
        var article: Substring?
        var lines: [Substring] = []
        for line in source.split(separator: "\n", omittingEmptySubsequences: false) {
            let text = line.drop { $0 == " " }
            guard text.hasPrefix("// Article: ") else {
                lines.append(line)
                continue
            }
            if let name = article {
                let indent = lines.first?.prefix { $0 == " " }.count ?? 0
                let block = lines.map { $0.dropFirst(min(indent, $0.count)) }.joined(separator: "\n")
                blocks.append((String(name), block))
                article = nil
            } else {
                article = text.dropFirst("// Article: ".count)
            }
            lines = []
        }
        return blocks
    }

    private static func fenced(_ article: String) -> [String] {
        article.components(separatedBy: "```swift\n").dropFirst().compactMap {
            $0.components(separatedBy: "\n```").first
        }
    }

    // MARK: What the code does

    private let server: TestServer
    private let manager: HTTPRequestOperationManager
    private let scratch: Scratch
    private let content = PatternBytes.data(count: 300_000)

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
        manager = HTTPRequestOperationManager(
            baseURL: server.url, completionQueue: DispatchQueue(label: "Convoy.Articles"))
        server.route("POST", "/login", .json(["token": "t0ken"]))
        server.route("GET", "/me", .json(["name": "Ada"]))
        server.route("GET", "/users/1", .json(["name": "Ada"]))
        server.route("POST", "/users", .json(["name": "Grace"], status: 201))
        server.route("GET", "/users", .json(["Ada", "Grace"]))
        server.route("GET", "/users/7", .json(["title": "No user 7"], status: 404))
        server.route("GET", "/images/*", .bytes(Data([1, 2, 3]), type: "image/png"))
        server.route("GET", "/files/1", .json(["a": 1]))
        server.route("GET", "/table", .bytes(Data("1,2\n3,4".utf8), type: "text/csv"))
        server.route("GET", "/orders", .json(["a": 1]))
        server.route("POST", "/orders", .json(["a": 1]))
        server.route("POST", "/photos", .status(204))
        server.servePattern(count: content.count, at: "/film", etag: "\"1\"")
    }

    private final class States: Sendable {
        let list = Locked<[String]>([])
    }

    @Test func `a request waits for another one and uses its result`() async throws {
        #expect(try await ArticleCode.chain(manager).name == "Ada")
        #expect(server.requests("/me").first?.headers["Authorization"] == "Bearer t0ken")

        let operations = try (0..<2).map { _ in try manager.makeOperation(.get, "me") }
        let states = States()
        let observation = ArticleCode.observation(operations[0])
        let own = operations[0].observe(.state) { _, change in states.list.withLock { $0.append("\(change.newValue)") } }
        let report = ArticleCode.report(manager, operations[0], operations[1])
        try await waitUntil("the report") { report.isFinished }
        #expect(operations.allSatisfy { $0.isFinished })
        try await waitUntil("the last state") { states.list.withLock { $0.last } == "finished" }
        #expect(states.list.withLock { $0 } == ["executing", "finished"])
        withExtendedLifetime((observation, own)) {}

        let grouped = try (0..<2).map { _ in try manager.makeOperation(.get, "me") }
        let group = ArticleCode.group(manager, grouped)
        await withCheckedContinuation { continuation in group.notify(queue: .global()) { continuation.resume() } }
        #expect(grouped.allSatisfy { $0.isFinished })
    }

    @Test func `a paused download resumes with the correct bytes`() async throws {
        let file = scratch.url.appendingPathComponent("film")
        let download = try await ArticleCode.pause(manager, file)
        #expect(try Data(contentsOf: file) == content && download.error == nil)
        ArticleCode.pauseAll(manager)
        #expect(try await manager.get("film", as: Data.self) == content)
    }

    @Test func `a batch finishes after all of its operations`() async throws {
        #expect(try await ArticleCode.batch(manager) == 24 * 3)
        let operations = try (0..<3).map { try manager.makeOperation(.get, "users/\($0)") }
        let batch = ArticleCode.batchWithHandlers(manager, operations)
        #expect(batch.count == 4)
        try await (batch.last as? BatchOperation)?.finished()
        #expect(operations.map { $0.error == nil } == [false, true, false])
    }

    @Test func `serializers build requests and decode responses`() async throws {
        try await ArticleCode.requestSerializers(manager, ArticleCode.Order(items: 2))
        let sent = server.requests.filter { $0.path == "/orders" }
        #expect(sent.map(\.method) == ["GET", "POST", "POST", "POST"])
        #expect(sent[0].query == "state=open&tags=new&tags=big")
        #expect(sent[1].text == "items=2" && sent[1].headers["Content-Type"] == "application/x-www-form-urlencoded")
        #expect(sent[2].text == #"{"items":2}"# && sent[3].text == #"{"items":2}"#)
        #expect(sent.allSatisfy { $0.headers["Authorization"] == "Bearer t0ken" })

        let (user, text, bytes, tree) = try await ArticleCode.responses(manager)
        #expect(user.name == "Ada" && text == #"{"name":"Ada"}"# && bytes == Data(text.utf8))
        #expect("\(tree)" == text)
        let table = try await ArticleCode.operationSerializer(manager)
        #expect((table.responseObject as? [[String]]) == [["1", "2"], ["3", "4"]])
    }

    @Test func `an error describes the failure`() async throws {
        server.route("POST", "/busy", inTurn: [.status(503), .json(["a": 1])])
        let post = try manager.makeOperation(.post, "busy")
        ArticleCode.retryPost(post)
        try await post.finished()
        #expect(server.requests("POST", "/busy").count == 2)
        #expect(try await ArticleCode.errors(manager) == "No user 7")
    }

    @Test func `code written for other libraries works`() async throws {
        try await ArticleCode.afNetworking(manager).finished()
        try await waitUntil("the list") { server.requests("/users").last?.query == "page=2" }

        let photo = scratch.url.appendingPathComponent("photo.png")
        try Data([1, 2, 3]).write(to: photo)
        let file = scratch.url.appendingPathComponent("film")
        try await ArticleCode.alamofire(file, photo, server.url)
        #expect(try Data(contentsOf: file) == content)
        #expect(server.requests("POST", "/users").last?.text == #"{"name":"Ada"}"#)
        #expect(server.requests("/photos").last?.headers["Content-Type"]?.hasPrefix("multipart/form-data") == true)
        try await ArticleCode.alamofireHandler(manager).finished()
        _ = try await ArticleCode.TokenManager(baseURL: server.url).get("me", as: ArticleCode.User.self)
        #expect(server.requests("/me").last?.headers["Authorization"] == "Bearer t0ken")

        let other = scratch.url.appendingPathComponent("other")
        server.route("PUT", "/film", .json(["a": 1]))
        let upload = try await ArticleCode.urlSession(server.url("/film"), other, content)
        #expect(try Data(contentsOf: other) == content && upload.statusCode == 200)
        #expect(server.requests("PUT", "/film").last?.bodyLength == content.count)
        #expect(try await ArticleCode.urlRequest(URLRequest(url: server.url("/me"))).responseString == #"{"name":"Ada"}"#)
    }

    @Test func `cookies and responses are stored`() async throws {
        server.route("GET", "/page") { request in
            .text(request.headers["Cookie"] ?? "new").header("Set-Cookie", "seen=1; Max-Age=60")
        }
        #expect(try await ArticleCode.cookies(manager, scratch.url) == "new")
        #expect(try await manager.get("page", as: String.self) == "seen=1")
        server.route(
            "GET", "/table",
            .json(["a": 1]).header("Cache-Control", "max-age=60").header("Set-Cookie", "b=1"))
        #expect(try await ArticleCode.cache(manager, scratch.url).cacheUse == .fresh)
        #expect(server.requests("/table").count == 1)
        let operation = try manager.makeOperation(.get, "table")
        manager.cache?.removeAll()
        // Responses to requests with cookies are only found by requests with the same cookies.
        operation.cookieStore = nil
        ArticleCode.storing(operation)
        manager.enqueue(operation)
        try await operation.finished()
        let stored = await manager.cache?.cachedResponse(for: URLRequest(url: server.url("/table")))
        let head = try #require(stored?.response as? HTTPURLResponse)
        #expect(head.value(forHTTPHeaderField: "Set-Cookie") == nil && stored?.data == operation.responseData)
    }

    @Test func `a paused upload arrives complete`() async throws {
        let film = scratch.url.appendingPathComponent("film")
        try content.write(to: film)
        server.route("PUT", "/files", .status(201))
        let upload = ArticleCode.upload(manager, server.url("/files"), film)
        try await upload.finished()
        #expect(server.requests("/files").last { $0.method == "PUT" }?.body == content)
    }

    @Test func `files are downloaded, and queued work outlives the process`() async throws {
        let bytes = PatternBytes.data(count: 5_000_000)
        server.serve(bytes, at: "/archive", etag: "\"1\"")
        let digest = MessageDigest()
        digest.update(bytes)
        let file = scratch.url.appendingPathComponent("archive")
        try Data("old".utf8).write(to: file)
        let download = try await ArticleCode.download(manager, file, try #require(Checksum(of: digest)))
        #expect(try Data(contentsOf: file) == bytes && download.outcome == .downloaded)

        let url = server.url("/archive").absoluteString
        let document = """
            <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="linked"><url>\(url)</url></file></metalink>
            """
        let linked = try ArticleCode.metalink(Data(document.utf8), scratch.url)
        manager.enqueue(linked)
        for operation in linked { try await operation.finished() }
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("linked")) == bytes)

        let slow = try manager.makeDownload("archive", to: scratch.url.appendingPathComponent("slow"))
        ArticleCode.rates(manager, slow)
        RateLimit.shared.bytesPerSecond = nil
        #expect(slow.receiveRateLimit?.bytesPerSecond == 1_000_000)

        server.route("POST", "/receipts", .json(["a": 1]))
        var post = URLRequest(url: server.url("/receipts"))
        post.httpMethod = "POST"
        let queue = try await ArticleCode.downloadQueue(
            manager, scratch.url.appendingPathComponent("queue"), server.url("/archive"),
            scratch.url.appendingPathComponent("photo"), post, Data("{}".utf8))
        try await queue.waitUntilAllFinished()
        #expect(try Data(contentsOf: scratch.url.appendingPathComponent("photo")) == bytes)
        #expect(server.requests("POST", "/receipts").first?.headers["Idempotency-Key"] != nil)
        await queue.close()
    }
}
