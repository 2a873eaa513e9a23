import Convoy
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

// The code of the article with recipes, and what it does; see ArticleCode.swift.

// Article: Recipes
struct Book: Codable, Sendable, Equatable {
    var id: Int
    var title: String
}

/// A client for the service of a library.
struct LibraryClient: Sendable {
    private struct Grant: Decodable {
        var token: String
        var seconds: Double
    }

    private struct Page: Decodable {
        var books: [Book]
        var next: String?
    }

    private let manager: HTTPRequestOperationManager

    /// - Parameter directory: The directory of cached responses. Use a separate one for each user.
    init(url: URL, key: String, cachingIn directory: URL) throws {
        manager = HTTPRequestOperationManager(baseURL: url)
        manager.cache = try HTTPCache(directory: directory, diskCapacity: 256 << 20)
        manager.retryPolicy = RetryPolicy(maximumRetryCount: 3)
        manager.totalTimeout = 30
        manager.authenticator = Authenticator { [weak manager] _ in
            guard let manager else { throw URLError(.cancelled) }
            let grant: Grant = try await manager.post("token", parameters: ["key": key])
            return AccessToken(grant.token, expiresIn: grant.seconds)
        }
    }

    func book(_ id: Int) async throws -> Book { try await manager.get("books/\(id)") }

    /// Calls the closure for each book. Fetches a page when all books of the previous page have been handled.
    func forEachBook(_ body: (Book) async throws -> Void) async throws {
        var address: String? = "books"
        while let current = address {
            let page: Page = try await manager.get(current)
            for book in page.books { try await body(book) }
            address = page.next
        }
    }
}
// Article: end

// Article: Recipes
@Suite struct LibraryClientTests {
    private let server: TestServer
    private let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)

    init() throws {
        server = try TestServer()
        server.route("POST", "/token", .json(#"{"token": "t0ken", "seconds": 3600}"#))
    }

    private func client() throws -> LibraryClient {
        try LibraryClient(url: server.url, key: "k", cachingIn: directory)
    }

    @Test func `a rejected token is replaced, and the request is sent again`() async throws {
        server.route(
            "GET", "/books/1",
            inTurn: [
                .status(401, headers: ["WWW-Authenticate": "Bearer"]),
                .json(Book(id: 1, title: "Emma")).header("Cache-Control", "max-age=60"),
            ])
        let client = try client()
        #expect(try await client.book(1).title == "Emma")
        #expect(server.requests("/token").count == 2)
        #expect(server.requests("/books/1").last?.headers["Authorization"] == "Bearer t0ken")

        #expect(try await client.book(1).title == "Emma")
        #expect(server.requests("/books/1").count == 2)  // the last response is from the cache
    }

    @Test func `all pages are read, despite a broken connection`() async throws {
        server.route(
            "GET", "/books",
            inTurn: [
                .json(#"{"books": [{"id": 1, "title": "Emma"}], "next": "books?page=2"}"#),
                .json(#"{"books": [{"id": 2, "title": "Ulysses"}]}"#).resetBeforeHead(),
                .json(#"{"books": [{"id": 2, "title": "Ulysses"}]}"#),
            ])
        var titles: [String] = []
        try await client().forEachBook { titles.append($0.title) }
        #expect(titles == ["Emma", "Ulysses"])
    }
}
// Article: end

// Article: Recipes
/// Downloads new and changed files of a server's index, and returns the downloads that failed.
func mirror(_ manager: HTTPRequestOperationManager, into directory: URL) async throws -> [DownloadOperation] {
    struct File: Decodable, Sendable {
        var name: String
        var sha256: String
    }
    manager.maxConcurrentOperationCountPerHost = 6
    manager.retryPolicy = RetryPolicy(maximumRetryCount: 5)

    let files: [File] = try await manager.get("index.json")
    let downloads = try files.filter { !$0.name.contains("/") }.map { file in
        let download = try manager.makeDownload(file.name, to: directory.appendingPathComponent(file.name))
        download.checksum = try Checksum(.sha256, hexadecimal: file.sha256)
        download.existingFilePolicy = .revalidate
        return download
    }
    return try await manager.enqueueBatch(of: downloads).filter { $0.error != nil }
}
// Article: end

// Article: Recipes
/// The latest prices, updated by events.
actor Dashboard {
    struct Price: Decodable {
        var symbol: String
        var value: Double
    }

    private(set) var prices: [String: Double] = [:]

    /// Follows the events until the server ends them, or the task is cancelled.
    func follow(_ manager: HTTPRequestOperationManager) async throws {
        for try await event in try manager.events("prices") where event.type == "price" {
            let price = try event.decoded(as: Price.self)
            prices[price.symbol] = price.value
        }
    }
}
// Article: end

// Article: Recipes
/// Cancels all requests when the user presses Ctrl-C. Keep the returned source alive.
func cancelOnInterrupt(_ manager: HTTPRequestOperationManager) -> any DispatchSourceSignal {
    signal(SIGINT, SIG_IGN)
    let source = DispatchSource.makeSignalSource(signal: SIGINT, queue: .global())
    source.setEventHandler { @Sendable in manager.operationQueue.cancelAllOperations() }
    source.resume()
    return source
}
// Article: end

/// The behaviour of the mirror and the dashboard.
@Suite struct ArticleRecipeTests {
    private let server: TestServer
    private let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url)
    }

    @Test func `a mirror downloads missing files and revalidates the others`() async throws {
        let scratch = try Scratch()
        let bodies = ["a": PatternBytes.data(count: 50_000), "b": PatternBytes.data(count: 70_000)]
        let index = try bodies.map { name, body in
            let digest = try #require(MessageDigest.sha256(body))
            server.serve(body, at: "/\(name)", etag: "\"\(name)\"")
            return ["name": name, "sha256": digest.hexadecimalString]
        }
        server.route("GET", "/index.json", .json(index))

        #expect(try await mirror(manager, into: scratch.url).isEmpty)
        for (name, body) in bodies { #expect(try Data(contentsOf: scratch.url.appendingPathComponent(name)) == body) }
        #expect(try await mirror(manager, into: scratch.url).isEmpty)
        #expect(server.requests("/a").map { $0.headers["If-None-Match"] } == [nil, "\"a\""])
        server.route("/b", .status(404))
        #expect(try await mirror(manager, into: scratch.url).map(\.statusCode) == [404])
    }

    @Test func `a dashboard keeps the latest price of each symbol`() async throws {
        let events = ["ACME 1", "ACME 2", "EMCA 3"].map { text in
            let parts = text.split(separator: " ")
            return "event: price\ndata: {\"symbol\": \"\(parts[0])\", \"value\": \(parts[1])}\n\n"
        }
        server.route(
            "GET", "/prices", inTurn: [.chunked(events, type: "text/event-stream"), .status(204)])
        let dashboard = Dashboard()
        try await dashboard.follow(manager)
        #expect(await dashboard.prices == ["ACME": 2, "EMCA": 3])
    }
}
