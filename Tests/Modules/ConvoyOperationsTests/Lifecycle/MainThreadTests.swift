import ConvoyTestServer
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyOperations

/// Tests that block the main thread. Uses XCTest, which runs tests on it.
final class MainThreadTests: XCTestCase {
    /// Only handlers on the main queue wait for the main thread.
    func testTheWholeFlowWorksWhileTheMainThreadIsBlocked() throws {
        XCTAssertTrue(Thread.isMainThread)
        let server = try TestServer()
        server.route("POST", "/login", .json(text: #"{"token": "abc"}"#))
        server.route("GET", "/me", .json(text: #"{"name": "ada"}"#))
        server.servePattern(count: 5_000_000, at: "/file", etag: "\"v1\"")
        server.redirect("/moved", to: "/me")
        struct User: Decodable, Sendable { var name: String }

        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = testQueue
        let login = try manager.makeOperation(.post, "login", parameters: ["user": "ada"])
        let profile = try manager.makeOperation(.get, "me")
        profile.addDependency(login)
        profile.prepare = { request in
            let token = (login.responseObject as? [String: Any])?["token"] as? String ?? "none"
            request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        }
        let done = DispatchGroup()
        done.enter()
        let batch = URLConnectionOperation.batch(
            of: [login, profile], completionQueue: testQueue, completion: { _ in done.leave() })
        manager.enqueue(batch)

        done.enter()
        let download = HTTPRequestOperation(request: URLRequest(url: server.url("/file")))
        download.completionQueue = testQueue
        download.onFirstBytes {
            download.pause()
            download.resume()
        }
        download.completionBlock = { done.leave() }
        manager.enqueue(download)

        done.enter()
        Task.detached {
            let user: User? = try? await manager.get("moved")
            XCTAssertEqual(user?.name, "ada")
            done.leave()
        }
        // The main thread waits here, and serves no queue in the meantime.
        XCTAssertEqual(done.wait(timeout: .now() + 30), .success)
        XCTAssertEqual(download.responseData?.count, 5_000_000)
        XCTAssertEqual((profile.responseObject as? [String: String])?["name"], "ada")
        XCTAssertTrue(server.requests("GET", "/me").contains { $0.headers["Authorization"] == "Bearer abc" })
    }
}
