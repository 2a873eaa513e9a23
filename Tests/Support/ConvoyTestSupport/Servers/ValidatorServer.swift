import ConvoySupport
import Foundation

/// A server of a resource whose entity tag may contain any bytes. It compares returned tags byte by byte.
public final class ValidatorServer: Sendable {
    /// A received request.
    public struct Request: Sendable {
        /// The head of the request, unchanged.
        public let head: [UInt8]

        /// Returns the value of the first field with a name, unchanged.
        public func field(_ name: String) -> [UInt8]? {
            let wanted = Array("\r\n\(name.lowercased()):".utf8)
            let lower = head.map(ASCII.lowercased)
            guard lower.count >= wanted.count else { return nil }
            for start in 0...(lower.count - wanted.count) where lower[start..<start + wanted.count].elementsEqual(wanted) {
                let value = head[(start + wanted.count)...].prefix { $0 != UInt8(ascii: "\n") && $0 != 0 }
                return Array(ASCII.trimmed(value))
            }
            return nil
        }
    }

    private struct State {
        var tag: [UInt8] = []
        var cuts = false
        var cutsNext = false
        var requests: [Request] = []
    }

    /// The body of the resource.
    public static let body = Data((0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 251) })

    /// The state shared with the server's thread.
    private final class Shared: Sendable {
        let state = Locked(State())
    }

    private let shared = Shared()
    private let server: RawServer

    /// Starts the server.
    public init() throws {
        let shared = shared
        server = try RawServer { bytes in
            let request = Request(head: bytes)
            let (tag, cuts) = shared.state.withLock { state in
                state.requests.append(request)
                defer { state.cutsNext = false }
                return (state.tag, state.cuts || state.cutsNext)
            }
            return Self.answer(request, tag, cuts: cuts)
        }
    }

    deinit { server.stop() }

    /// The value of `ETag`.
    public var tag: [UInt8] {
        get { shared.state.withLock { $0.tag } }
        set { shared.state.withLock { $0.tag = newValue } }
    }

    /// Whether the connection is cut after half of the complete body.
    public var cuts: Bool {
        get { shared.state.withLock { $0.cuts } }
        set { shared.state.withLock { $0.cuts = newValue } }
    }

    /// Cuts the connection of the next request only.
    public func cutNext() { shared.state.withLock { $0.cutsNext = true } }

    /// Returns the requests since the last call.
    public func takeRequests() -> [Request] {
        shared.state.withLock { state in
            defer { state.requests = [] }
            return state.requests
        }
    }

    /// Returns the URL of the resource under a name.
    public func url(_ name: String) -> URL {
        URL(string: "http://127.0.0.1:\(server.port)/\(name)") ?? URL(fileURLWithPath: "/")
    }

    private static func answer(_ request: Request, _ tag: [UInt8], cuts: Bool) -> [UInt8] {
        if let condition = request.field("If-None-Match"), condition == tag {
            return head("304 Not Modified", tag, nil)
        }
        let start = request.field("Range").flatMap { Int(String(decoding: $0.dropFirst(6).dropLast(), as: UTF8.self)) }
        guard let start, request.field("If-Range") ?? tag == tag else {
            return head("200 OK", tag, body.count) + (cuts ? body.prefix(body.count / 2) : body)
        }
        let range = "Content-Range: bytes \(start)-\(body.count - 1)/\(body.count)"
        return head("206 Partial Content", tag, body.count - start, range) + body.dropFirst(start)
    }

    private static func head(_ status: String, _ tag: [UInt8], _ length: Int?, _ more: String? = nil) -> [UInt8] {
        var head = Array("HTTP/1.1 \(status)\r\nCache-Control: no-cache\r\nAccept-Ranges: bytes\r\nETag: ".utf8) + tag
        head += "\r\n".utf8
        if let length { head += "Content-Length: \(length)\r\n".utf8 }
        if let more { head += "\(more)\r\n".utf8 }
        return head + Array("Connection: close\r\n\r\n".utf8)
    }

    /// Tags with a special byte in the middle that a line can contain: any except a line feed, NUL, which libcurl
    /// rejects, and a carriage return, which newer versions reject. By default, these are all control characters, their
    /// neighbours, and some other bytes; with a larger budget, every byte.
    public static let tags: [(byte: UInt8, tag: [UInt8], isSendable: Bool)] = (UInt8(1)...255).filter(isTried).map { byte in
        let tag: [UInt8] = [UInt8(ascii: "\""), UInt8(ascii: "v"), byte, UInt8(ascii: "w"), UInt8(ascii: "\"")]
        return (byte, tag, byte == 0x09 || byte >= 0x20 && byte != 0x7F)
    }

    private static func isTried(_ byte: UInt8) -> Bool {
        guard byte != 0x0A, byte != 0x0D || !Libcurl.refusesCarriageReturns else { return false }
        return PropertyBudget.factor > 1 || byte <= 0x22 || (0x7E...0x81).contains(byte) || byte % 12 == 0 || byte == 0xFF
    }
}
