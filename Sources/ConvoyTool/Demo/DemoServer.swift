import Convoy
import ConvoyTestServer
import Foundation

/// The demo's server: on the loopback interface, inside this process.
struct DemoServer {
    static let token = "convoy-\(UInt32.random(in: 1000...9999))"
    static let reportPath = "/reports/1815"
    static let filePath = "/file"
    /// The size in bytes of the file whose download is paused half-way.
    static let fileSize = 8 << 20
    static let fileCount = 24

    let server: TestServer
    let file: Data

    init() throws {
        server = try TestServer()
        file = PatternBytes.data(count: Self.fileSize)
        addChain()
        addBatch()
        // Slow enough to be watched, and to be paused half-way.
        server.serve(file, at: Self.filePath, etag: "\"demo-1\"") { _, response in
            response.bandwidth(bytesPerSecond: 10_000_000)
        }
    }

    /// The size in bytes of a file in the batch.
    static func size(of number: Int) -> Int { 40_000 + number * 7_919 }

    static func path(of number: Int) -> String { "/parts/\(number)" }

    /// The expected SHA-256 of a file in the batch.
    static func digest(of number: Int) -> Data? { MessageDigest.sha256(PatternBytes.data(count: size(of: number))) }

    private func addChain() {
        let token = Self.token
        server.route("POST", "/login") { request in
            guard request.text == "user=ada" else { return .json(["error": "unknown user"], status: 403) }
            return TestServer.Response.json(["token": token]).delayed(0.1)
        }
        server.route("GET", "/me") { request in
            guard request.headers["Authorization"] == "Bearer \(token)" else { return .status(401) }
            return TestServer.Response.json(["name": "Ada", "report": Self.reportPath]).delayed(0.1)
        }
        server.route("GET", Self.reportPath) { request in
            guard request.headers["Authorization"] == "Bearer \(token)" else { return .status(401) }
            return TestServer.Response.json(["title": "Notes on the engine", "pages": "66"]).delayed(0.1)
        }
    }

    private func addBatch() {
        for number in 0..<Self.fileCount {
            let size = Self.size(of: number)
            server.route("GET", Self.path(of: number), .pattern(count: size).delayed(0.15))
        }
    }
}
