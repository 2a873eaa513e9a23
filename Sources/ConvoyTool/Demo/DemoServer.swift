import Convoy
import Foundation

/// The loopback server to which the demo sends its requests.
struct DemoServer {
    static let token = "convoy-\(UInt32.random(in: 1000...9999))"
    static let reportPath = "/reports/1815"
    static let filePath = "/file"
    /// The size in bytes of the file whose download is paused half-way.
    static let fileSize = 8 << 20
    static let fileCount = 24

    let server: LoopbackServer
    let url: URL
    let file: Data

    init() throws {
        let file = Self.bytes(count: Self.fileSize)
        self.file = file
        server = try LoopbackServer { request in Self.answer(request, file) }
        guard let url = URL(string: "http://127.0.0.1:\(server.port)/") else { throw URLError(.badURL) }
        self.url = url
    }

    var fileURL: URL { url.appendingPathComponent(String(Self.filePath.dropFirst())) }

    /// Returns the size in bytes of a file in the batch.
    static func size(of number: Int) -> Int { 40_000 + number * 7_919 }

    static func path(of number: Int) -> String { "/parts/\(number)" }

    /// Returns the expected SHA-256 digest of a file in the batch.
    static func digest(of number: Int) -> Data? { MessageDigest.sha256(bytes(count: size(of: number))) }

    /// Returns bytes in which no two blocks are equal.
    private static func bytes(count: Int) -> Data {
        // The period is prime, so it does not divide the block size, and no two blocks are equal.
        let period = Data((0..<251).map(UInt8.init))
        var data = Data(capacity: count + period.count)
        while data.count < count { data.append(period) }
        return data.prefix(count)
    }

    private static func answer(_ request: LoopbackServer.Request, _ file: Data) -> LoopbackServer.Response {
        switch (request.method, request.path) {
        case ("POST", "/login"):
            guard request.body == Data("user=ada".utf8) else { return .json(["error": "unknown user"], status: 403) }
            return .json(["token": token])
        case ("GET", "/me"), ("GET", reportPath):
            guard request.fields["authorization"] == "Bearer \(token)" else { return .json([:], status: 401) }
            return request.path == reportPath
                ? .json(["title": "Notes on the engine", "pages": "66"]) : .json(["name": "Ada", "report": reportPath])
        // The response is slow enough to watch, and to pause half-way.
        case ("GET", filePath): return range(of: file, request)
        case ("GET", let path):
            guard path.hasPrefix("/parts/"), let number = Int(path.dropFirst(7)), 0..<fileCount ~= number else { break }
            return LoopbackServer.Response(body: bytes(count: size(of: number)), delay: 0.15)
        default: break
        }
        return LoopbackServer.Response(status: 404)
    }

    /// Returns the complete file, or the requested range.
    private static func range(of file: Data, _ request: LoopbackServer.Request) -> LoopbackServer.Response {
        let tag = "\"demo-1\""
        var response = LoopbackServer.Response(
            fields: ["ETag": tag, "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"], body: file,
            bytesPerSecond: 10_000_000)
        guard let range = request.fields["range"], range.hasPrefix("bytes="), range.hasSuffix("-"),
            let start = Int(range.dropFirst(6).dropLast()), 0..<file.count ~= start,
            request.fields["if-range"].map({ $0 == tag }) ?? true
        else { return response }
        response.status = 206
        response.fields["Content-Range"] = "bytes \(start)-\(file.count - 1)/\(file.count)"
        response.body = Data(file[start...])
        return response
    }
}
