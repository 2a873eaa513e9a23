import ConvoySupport
import ConvoyTestSupport
import Foundation

/// A server for resumable uploads with tus and the draft, on 127.0.0.1. It stores bytes as they arrive, and can
/// misbehave.
///
/// Each connection has a thread. Stored uploads survive ``restart()``.
final class UploadServer: Sendable {
    struct Stored: Sendable {
        var data = Data()
        var length: Int?
        var isPartial = false
        var isComplete = false
        /// The largest number of bytes that was ever reported.
        var claimed = 0
    }

    struct Request: Sendable {
        var method: String
        var path: String
        var fields: [String: String]
        var isTus: Bool { fields["tus-resumable"] != nil }
        func number(_ name: String) -> Int? { fields[name].flatMap { Int($0) } }
    }

    /// A fault in the server's handling of a request.
    enum Fault: Sendable {
        /// Responds immediately with these bytes.
        case answer(String)
        /// Receives and discards the body, and responds with this status and these fields.
        case refuse(Int, [(String, String)] = [])
        /// Accepts this many bytes of the body, and resets the connection.
        case reset(after: Int)
        /// Processes the request, but sends no response.
        case loseAnswer
        /// Processes the request, but sends only this many bytes of its response.
        case cutAnswer(Int)
        /// Processes the request, and changes the head of its response.
        case change(@Sendable (_ head: inout [(String, String)], _ status: inout Int) -> Void)
        /// Forgets the upload before looking it up.
        case forget
        /// Loses bytes of the upload after the response, so that this many are left.
        case keepOnly(Int)
        /// Sends nothing and keeps the connection open.
        case stall
    }

    struct State: Sendable {
        var uploads: [String: Stored] = [:]
        var requests: [Request] = []
        /// The number of bytes of bodies that belong to uploads.
        var received = 0
        /// The number of bytes received on finished connections, read or not.
        var wired = 0
        /// The number of bytes in request heads.
        var heads = 0
        var count = 0
        var connections: Set<Int32> = []
        var isStopped = false
    }

    let state = Locked(State())
    let port: UInt16
    private let listener: Locked<Int32>
    private let fault: @Sendable (Request, State) -> Fault?
    /// The origin in `Location`; nil for a relative URL.
    private let locationBase: String
    /// Whether interim responses contain the URL of the draft's uploads.
    private let sendsInterim: Bool
    let extensions: String

    init(
        extensions: String =
            "creation,creation-with-upload,creation-defer-length,expiration,checksum,termination,concatenation",
        sendsInterim: Bool = true, locationBase: String = "",
        fault: @escaping @Sendable (Request, State) -> Fault? = { _, _ in nil }
    ) throws {
        // Allows listening on the same port again while old connections are closing.
        let (descriptor, port) = try Self.listen(at: 0)
        (self.port, self.fault, self.locationBase) = (port, fault, locationBase)
        (self.extensions, self.sendsInterim) = (extensions, sendsInterim)
        listener = Locked(descriptor)
        accept(descriptor)
    }

    deinit { stop() }

    func url(_ path: String = "/files") -> URL {
        URL(string: "http://127.0.0.1:\(port)\(path)") ?? URL(fileURLWithPath: "/")
    }

    /// Returns the upload at a URL.
    func stored(_ url: URL?) -> Stored? { state.withLock { $0.uploads[url?.path ?? ""] } }

    func stop() {
        state.withLock { $0.isStopped = true }
        closeAll()
    }

    /// Closes all connections, and listens on the same port again.
    func restart() throws {
        closeAll()
        let (descriptor, _) = try Self.listen(at: port)
        listener.withLock { $0 = descriptor }
        accept(descriptor)
    }

    private func closeAll() {
        let descriptor = listener.withLock { listener in
            defer { listener = -1 }
            return listener
        }
        if descriptor >= 0 { shutdown(descriptor, Int32(SHUT_RDWR)) }
        for connection in state.withLock({ $0.connections }) { shutdown(connection, Int32(SHUT_RDWR)) }
    }

    private static func listen(at port: UInt16) throws -> (descriptor: Int32, port: UInt16) {
        for _ in 0..<500 {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            var yes: Int32 = 1
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            let isBound = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                }
            }
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isKnown = withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) == 0 }
            }
            if isBound, isKnown, Glibc.listen(descriptor, 512) == 0 {
                return (descriptor, UInt16(bigEndian: address.sin_port))
            }
            close(descriptor)
            usleep(2000)
        }
        throw RawClient.Failure.system("bind", errno)
    }

    private func accept(_ listener: Int32) {
        Thread { [weak self] in
            while true {
                let client = Glibc.accept(listener, nil, nil)
                if client < 0 {
                    if errno == EINTR || errno == ECONNABORTED { continue }
                    break
                }
                _ = fcntl(client, F_SETFD, FD_CLOEXEC)
                guard let self, !self.state.withLock({ $0.isStopped }) else {
                    close(client)
                    break
                }
                self.state.withLock { _ = $0.connections.insert(client) }
                let connection = UploadServerConnection(client, server: self)
                Thread { connection.run() }.start()
            }
            close(listener)
        }.start()
    }

    func didEnd(_ client: Int32) {
        // The value is `tcpi_bytes_received` in Linux's `struct tcp_info`.
        var facts = [UInt64](repeating: 0, count: 32)
        var length = socklen_t(facts.count * 8)
        getsockopt(client, Int32(IPPROTO_TCP), TCP_INFO, &facts, &length)
        let wired = Int(facts[16])
        state.withLock { state in
            state.connections.remove(client)
            state.wired += wired
        }
        close(client)
    }

    // MARK: The protocol

    func faultFor(_ request: Request) -> Fault? {
        let snapshot = state.withLock { state in
            state.requests.append(request)
            return state
        }
        return fault(request, snapshot)
    }

    func newUpload(_ stored: Stored) -> String {
        state.withLock { state in
            state.count += 1
            let path = "/files/u\(state.count)"
            state.uploads[path] = stored
            return path
        }
    }

    func place(_ path: String) -> String { locationBase + path }

    var namesUploadsEarly: Bool { sendsInterim }

    /// Adds bytes to an upload, which stay stored even if the request fails later.
    func append(_ bytes: UnsafeRawBufferPointer, to path: String) {
        state.withLock { state in
            state.received += bytes.count
            state.uploads[path]?.data.append(contentsOf: bytes)
        }
    }
}
