import CEpoll
import Foundation

/// A TCP connection to 127.0.0.1 that sends exactly the given bytes, for requests that no well-behaved client can send.
///
/// Every call blocks its thread for at most `timeout` seconds. Do not use a client from several threads concurrently.
public final class RawClient {
    /// The reasons for a failed call.
    public enum Failure: Error, Equatable {
        /// A system call failed. The values are its name and its `errno`.
        case system(String, Int32)
        /// Nothing was received within the timeout.
        case timedOut
        /// The connection was reset by the other side.
        case reset
        /// The other side closed the connection too early.
        case closed
        /// The received bytes are not the expected HTTP.
        case notHTTP(String)
    }

    /// A parsed response.
    public struct Response: Equatable {
        /// The status line without its line ending.
        public var statusLine = ""
        /// The status code; 0 without a response.
        public var status = 0
        /// The header fields in order, with names in lower case.
        public var headers: [(name: String, value: String)] = []
        /// The body without its framing.
        public var body = Data()
        /// The body as a string.
        public var text: String { String(decoding: body, as: UTF8.self) }

        /// The first value of a header field.
        public subscript(name: String) -> String? {
            headers.first { $0.name == name.lowercased() }?.value
        }

        public static func == (left: Response, right: Response) -> Bool {
            left.statusLine == right.statusLine && left.body == right.body
                && left.headers.elementsEqual(right.headers) { $0 == $1 }
        }
    }

    /// The descriptor, which is closed by `close()` or when the client is released.
    public private(set) var descriptor: Int32
    private var buffer = Data()

    /// Connects to a port. `timeout` applies to every read and write, in seconds.
    public init(port: UInt16, timeout: TimeInterval = 10, receiveBuffer: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure.system("socket", errno) }
        var time = timeval(tv_sec: Int(timeout), tv_usec: Int((timeout - timeout.rounded(.down)) * 1e6))
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &time, size)
        if var bytes = receiveBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else {
            let code = errno
            close()
            throw Failure.system("connect", code)
        }
    }

    deinit {
        close()
    }

    /// Closes the connection.
    public func close() {
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
    }

    /// Closes the sending side of the connection.
    public func finishSending() {
        shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Resets the connection.
    public func reset() {
        var value = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
        close()
    }

    /// Sends a string as UTF-8.
    public func send(_ text: String) throws { try send(Data(text.utf8)) }

    /// Sends bytes.
    public func send(_ data: Data) throws {
        var done = 0
        while done < data.count {
            let count = data.withUnsafeBytes { bytes in
                Glibc.send(
                    descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done, Int32(MSG_NOSIGNAL))
            }
            if count > 0 { done += count } else if errno != EINTR { throw failure("send") }
        }
    }

    /// Sends "METHOD target HTTP/1.1" with a Host field, these header lines and this body. A body has a Content-Length.
    public func request(_ method: String, _ target: String, headers: [String] = [], body: Data? = nil) throws {
        var lines = ["\(method) \(target) HTTP/1.1", "Host: localhost"] + headers
        if let body { lines.append("Content-Length: \(body.count)") }
        try send(Data((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + (body ?? Data()))
    }

    /// Sends a request and reads its response.
    public func exchange(
        _ method: String, _ target: String, headers: [String] = [], body: Data? = nil
    ) throws -> Response {
        try request(method, target, headers: headers, body: body)
        return try response(toHead: method == "HEAD")
    }

    /// Reads all bytes up to the end of the connection.
    public func readToEnd() throws -> Data {
        while try fill() {}
        defer { buffer = Data() }
        return buffer
    }

    /// Reads exactly the given number of bytes.
    public func read(_ count: Int) throws -> Data {
        while buffer.count < count { guard try fill() else { throw Failure.closed } }
        return take(count)
    }

    /// Reads the next response, and skips interim ones (1xx).
    public func response(toHead: Bool = false) throws -> Response {
        while true {
            let response = try anyResponse(toHead: toHead)
            if !(100..<200).contains(response.status) { return response }
        }
    }

    /// Reads the next response, which may be an interim one (1xx).
    public func anyResponse(toHead: Bool = false) throws -> Response {
        var response = Response()
        response.statusLine = try line()
        let words = response.statusLine.split(separator: " ")
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1]) else {
            throw Failure.notHTTP(response.statusLine)
        }
        response.status = status
        response.headers = try fields()
        if toHead || (100..<200).contains(status) || status == 204 || status == 304 { return response }
        if response["transfer-encoding"] == "chunked" {
            while true {
                guard let size = Int(try line(), radix: 16) else { throw Failure.notHTTP("chunk size") }
                if size == 0 { break }
                response.body.append(try read(size))
                guard try line().isEmpty else { throw Failure.notHTTP("chunk end") }
            }
            response.headers += try fields()
        } else if let length = response["content-length"].flatMap({ Int($0) }) {
            response.body = try read(length)
        } else {
            response.body = try readToEnd()
        }
        return response
    }

    private func fields() throws -> [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = []
        while true {
            let text = try line()
            if text.isEmpty { return fields }
            let pair = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2 else { throw Failure.notHTTP(text) }
            fields.append((pair[0].lowercased(), pair[1].trimmingCharacters(in: .whitespaces)))
        }
    }

    private func line() throws -> String {
        while true {
            if let end = buffer.firstIndex(of: 10) {
                let text = String(decoding: take(end - buffer.startIndex + 1), as: UTF8.self)
                // Swift counts CR LF as one character.
                return String(text.dropLast())
            }
            guard try fill() else { throw Failure.closed }
        }
    }

    private func take(_ count: Int) -> Data {
        let part = Data(buffer.prefix(count))
        buffer = Data(buffer.dropFirst(count))
        return part
    }

    private func fill() throws -> Bool {
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = recv(descriptor, &bytes, bytes.count, 0)
            if count > 0 {
                bytes.withUnsafeBytes { buffer.append(contentsOf: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            }
            if count >= 0 { return count > 0 }
            if errno != EINTR { throw failure("recv") }
        }
    }

    private func failure(_ call: String) -> Failure {
        switch errno {
        case EAGAIN: .timedOut
        case ECONNRESET: .reset
        default: .system(call, errno)
        }
    }
}
