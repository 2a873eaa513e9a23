import Convoy
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

/// The behaviour of the code in the article about sessions, and in that for users of AFNetworking's sessions.
@Suite struct ArticleSessionTests {
    private let server: TestServer
    private let scratch: Scratch
    private let content = PatternBytes.data(count: 3_000_000)

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
        server.route("GET", "/users/1", .json(["name": "Ada"]))
        server.route("POST", "/users", .json(["name": "Grace"], status: 201))
    }

    private func manager() -> HTTPSessionManager {
        var configuration = SessionConfiguration.ephemeral
        configuration.temporaryDirectory = scratch.url.appendingPathComponent("parts")
        return HTTPSessionManager(
            baseURL: server.url, configuration: configuration, completionQueue: DispatchQueue(label: "Convoy.Articles"))
    }

    @Test func `HTTPSessionManager has the same calls as HTTPRequestOperationManager`() async throws {
        let (manager, user) = try await ArticleCode.session(server.url)
        #expect(user.name == "Ada")
        try await waitUntil("both requests") { server.requests.count == 2 && manager.tasks.isEmpty }
        #expect(server.requests.allSatisfy { $0.headers["X-Client"] == "app/1" })
    }

    @Test func `a task waits for the tasks it depends on`() async throws {
        try await ArticleCode.tasks(
            manager(), URLRequest(url: server.url("/users/1?first")), URLRequest(url: server.url("/users/1?second")))
        #expect(server.requests.map(\.query) == ["first", "second"])
    }

    @Test func `a download resumes from the data of a cancelled one`() async throws {
        let gate = TestServer.Gate()
        server.servePattern(count: content.count, at: "/film", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 2_000_000) : response
        }
        let file = scratch.url.appendingPathComponent("film")
        let task = try await ArticleCode.resumeData(
            manager(), URLRequest(url: server.url("/film")), file, scratch.url.appendingPathComponent("note")
        ) { task in
            try await waitUntil("bytes of the body") { task.countOfBytesReceived >= 2_000_000 }
        }
        gate.open()
        #expect(try Data(contentsOf: file) == content && task.fileURL == file)
        #expect(server.requests.count == 2 && server.requests.last?.headers["Range"] != nil)
    }

    @Test func `the handlers determine the result of tasks`() async throws {
        let manager = manager()
        ArticleCode.handlers(manager, scratch.url)
        server.servePattern(count: content.count, at: "/film")
        let film = manager.dataTask(with: URLRequest(url: server.url("/film")))
        film.resume()
        try await film.finished()
        let file = scratch.url.appendingPathComponent("\(film.taskIdentifier)")
        #expect(try Data(contentsOf: file) == content)
        server.redirect("/away", to: "http://localhost:\(server.port)/users/1")
        server.redirect("/near", to: "/users/1")
        for (path, status) in [("/away", 302), ("/near", 200)] {
            let task = manager.dataTask(with: URLRequest(url: server.url(path)))
            task.resume()
            try? await task.finished()
            #expect(task.response?.statusCode == status)
        }
        ArticleCode.invalidation(manager)
        await #expect(throws: SessionError.invalidated) { try await manager.get("users/1") }
    }

    @Test func `code written for AFNetworking's session manager works`() async throws {
        server.servePattern(count: content.count, at: "/film")
        let file = scratch.url.appendingPathComponent("film")
        let manager = manager()
        try await ArticleCode.afNetworkingSession(manager, URLRequest(url: server.url("/film")), file)
        try await waitUntil("the file") { manager.tasks.isEmpty }
        #expect(try Data(contentsOf: file) == content)
    }

    @Test func `a persistent queue replaces a background session`() async throws {
        server.servePattern(count: content.count, at: "/film")
        server.route("POST", "/receipts", .json(["a": 1]))
        var post = URLRequest(url: server.url("/receipts"))
        post.httpMethod = "POST"
        let file = scratch.url.appendingPathComponent("film")
        let queue = try await ArticleCode.inPlaceOfBackground(
            scratch.url.appendingPathComponent("queue"), server.url("/film"), file, post, Data("{}".utf8))
        try await queue.waitUntilAllFinished()
        #expect(try Data(contentsOf: file) == content && server.requests("/receipts").last?.text == "{}")
        await queue.close()
    }
}
