import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The executor of the caller after each public async function. Compilers up to Swift 6.3.1 lose it if a
/// `nonisolated(nonsending)` function rethrows an error (swiftlang/swift#88259).
@Suite(.timeLimit(.minutes(5))) struct ExecutorTests {
    static let rows =
        HTTPManagerRows.all + OperationRows.all + StreamRows.all + ObjectStorageRows.all + SharedQueueRows.all
        + DownloadRows.all + SessionRows.all + OtherRows.all

    @Test(arguments: rows)
    func `the caller of an async function is on its executor afterwards`(_ row: ExecutorRow) async throws {
        let server = try TestServer()
        defer { server.stop() }
        server.prepare()
        for ending in row.endings {
            for kind in CallerKind.allCases {
                let attempt = try Attempt(ending, at: server)
                let actor = kind.makeActor()
                let isCancelledFirst = ending == .cancellation && row.isCancelledFirst
                let (start, hasRoute) = AsyncStream.makeStream(of: Void.self)
                let task = Task.detached {
                    for await _ in start {}
                    if isCancelledFirst { withUnsafeCurrentTask { $0?.cancel() } }
                    try await row.call(actor, attempt)
                }
                server.route("/cancellation/*") { _ in
                    task.cancel()
                    return .text("").held(by: TestServer.Gate())
                }
                hasRoute.finish()
                let result = await task.result
                #expect(attempt.keepsExecutor == true, "\(row), \(ending), \(kind)")
                switch ending {
                case .success: #expect(throws: Never.self, "\(row), \(kind)") { try result.get() }
                case .error: #expect(throws: (any Error).self, "\(row), \(kind)") { try result.get() }
                case .cancellation: break
                }
            }
        }
    }
}

extension TestServer {
    /// Sets up the routes for success and error.
    fileprivate func prepare() {
        route("/error/*", .status(403))
        route("/success/*", .json(text: "[1]"))
        route("/success/events", .bytes(Data("event: put\ndata: [1]\n\n".utf8), type: "text/event-stream"))
        route("/success/image.png", .bytes(Samples.png, type: "image/png"))
        for bucket in ["/success/storage/bucket", "/success/storage/bucket/*"] {
            route(bucket, .bytes(Data(Samples.storageResult.utf8), type: "application/xml").header("ETag", "\"a\""))
        }
        // A plain upload starts before its bytes are rejected, so that there is an upload to terminate.
        for ending in Ending.allCases {
            let upload = "/\(ending)/tus/1"
            route("POST", "/\(ending)/tus", .status(201, headers: ["Location": "\(upload)", "Tus-Resumable": "1.0.0"]))
            route("PATCH", upload, .status(403))
            route("HEAD", upload, .status(403))
        }
        route("DELETE", "/success/tus/1", .status(204, headers: ["Tus-Resumable": "1.0.0"]))
    }
}

private enum Samples {
    static let png =
        Data(
            base64Encoded:
                "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        ) ?? Data()
    static let storageResult =
        "<Result><UploadId>id</UploadId><IsTruncated>false</IsTruncated><ETag>\"a\"</ETag></Result>"
}
