import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that strings created by the library contain no secrets.
@Suite struct WrittenSecretsTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.connectionConfiguration.sensitiveHeaders = ["X-Own"]
        manager.connectionConfiguration.sensitiveQueryItems.insert("own")
    }

    private func texts(_ value: some Any) -> [String] {
        ["\(value)", String(describing: value), String(reflecting: value)]
    }

    private func expectNoSecret(_ value: some Any, sourceLocation: SourceLocation = #_sourceLocation) {
        for text in texts(value) { #expect(!text.contains("s3cret"), sourceLocation: sourceLocation) }
    }

    private func run(_ path: String) async throws -> HTTPRequestOperation {
        let operation = try manager.makeOperation(.get, path)
        manager.enqueue(operation)
        try? await operation.finished()
        return operation
    }

    @Test func `descriptions of operations, managers, configurations and serializers contain no secrets`() throws {
        let base = try #require(URL(string: "http://ada:s3cret@h/?token=s3cret"))
        let other = HTTPRequestOperationManager(baseURL: base)
        other.requestSerializer.setAuthorizationHeader(username: "ada", password: "s3cret")
        other.requestSerializer.setAuthorizationHeader(bearerToken: "s3cret")
        other.requestSerializer.setValue("s3cret", forHTTPHeaderField: "X-Api-Key")
        var configuration = ConnectionConfiguration()
        configuration.clientIdentity = ClientIdentity(certificatePEM: Data("s3cret".utf8))
        other.connectionConfiguration = configuration
        expectNoSecret(other)
        expectNoSecret(other.requestSerializer)
        expectNoSecret(configuration)
        expectNoSecret(HTTPRequestOperation(request: URLRequest(url: base)))
        let own = try manager.makeOperation(.get, "x?own=s3cret&password=s3cret")
        expectNoSecret(own)
        #expect("\(own)".contains("own=***&password=***"))
    }

    @Test func `errors of every kind contain no secrets`() async throws {
        server.route("/missing", .text("no", status: 404))
        server.redirect("/ftp", to: "ftp://ada:s3cret@h/?own=s3cret")
        server.redirect("/plain", to: "/missing?own=s3cret")
        server.route("/json", .text("{", status: 200).header("Content-Type", "application/json"))
        server.route("/reset", .raw(Data("HTTP".utf8)))
        manager.responseSerializer = JSONResponseSerializer()
        for path in ["missing", "ftp", "plain", "json", "reset"] {
            let operation = try await run("\(path)?own=s3cret&token=s3cret#sig=s3cret")
            let error = try #require(operation.error, "\(path)")
            expectNoSecret(error)
            #expect(!error.localizedDescription.contains("s3cret"))
            #expect("\(error)".contains("own=***"), "\(error)")
            for event in operation.redirects { expectNoSecret(event) }
            // The complete URL is available only to the program.
            let url = (error as NSError).userInfo[NSURLErrorFailingURLErrorKey] as? URL
            #expect(url?.query?.contains("own=s3cret") == true && url?.password == nil)
        }
        let cancelled = try manager.makeOperation(.get, "x?own=s3cret")
        cancelled.cancel()
        cancelled.start()
        expectNoSecret(try #require(cancelled.error))
        for url in ["http://ada:s3cret@h:99999/?token=s3cret", "http://h:x/?token=s3cret", "http://ada:s3cret@/"] {
            let error = #expect(throws: URLError.self) { try manager.url(for: url) }
            expectNoSecret(try #require(error))
            #expect(error?.localizedDescription.contains("s3cret") == false)
        }
    }

    @Test func `notifications contain no secrets`() async throws {
        server.route("/x", .text("{}"))
        let heard = Locked<[String]>([])
        let names: [Notification.Name] = [.networkingOperationDidStart, .networkingOperationDidFinish]
        let ended = Signal()
        let operation = try manager.makeOperation(.get, "x?own=s3cret")
        operation.postsNotifications = true
        let observers = names.map { name in
            NotificationCenter.default.addObserver(forName: name, object: operation, queue: nil) { notification in
                heard.withLock { $0 += ["\(notification)", String(reflecting: notification)] }
                if name == .networkingOperationDidFinish { ended.fire() }
            }
        }
        manager.enqueue(operation)
        #expect(ended.wait())
        for observer in observers { NotificationCenter.default.removeObserver(observer) }
        let texts = heard.withLock { $0 }
        #expect(texts.count == 4 && texts.allSatisfy { !$0.contains("s3cret") }, "\(texts)")
    }
}
