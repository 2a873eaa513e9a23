import CCurl
import ConvoySupport
import Foundation

/// The sockets that the run loop watches for libcurl.
///
/// libcurl unregisters a socket after each request and registers it again for the next one. This table keeps the socket
/// registered in between, which saves two system calls per request. If it becomes ready in the meantime, because the
/// server has closed it, it is unregistered at that point. This is safe for sockets whose closing the table observes,
/// that is, those that it opened.
///
/// Used on the network thread only.
final class SocketTable {
    private struct Entry {
        var registered: FileEvents = []
        /// Whether libcurl currently watches the socket.
        var isWanted = false
        /// Whether the table opened the socket and will therefore close it.
        var isOwn = false
        /// Whether the socket belongs to an idle HTTP/1 connection.
        var isIdle = false
        /// Whether the transfer on the socket is paused until the next turn, so that events of the socket are ignored.
        var isResting = false
        /// The port of the peer, if the table opened the socket.
        var port = 0
    }

    private let runLoop: NetworkRunLoop
    @exclusivity(unchecked) private var entries: [Entry] = []
    /// The number of open sockets that the table has opened.
    @exclusivity(unchecked) private var ownCount = 0
    /// The number of times that a socket could not be opened for lack of a descriptor.
    @exclusivity(unchecked) private(set) var shortages = 0
    /// The times at which idle connections were last found to be dead, by the peer's port.
    @exclusivity(unchecked) private var losses: [Int: MonotonicTime] = [:]
    /// The handles that were denied a socket and have not tried another address yet.
    @exclusivity(unchecked) var stalled: [EasyHandle] = []

    init(runLoop: NetworkRunLoop) { self.runLoop = runLoop }

    /// Makes the connections of a handle close their sockets through the table. A connection may outlive the handle,
    /// but not the table.
    func adopt(_ easy: UnsafeMutableRawPointer) -> CURLcode {
        let context = Unmanaged.passUnretained(self).toOpaque()
        let code = convoy_easy_set_pointer(easy, CURLOPT_CLOSESOCKETDATA, context)
        guard code == CURLE_OK else { return code }
        return convoy_easy_set_close_socket_callback(easy) { context, socket in
            guard let context else { return close(socket) }
            return Unmanaged<SocketTable>.fromOpaque(context).takeUnretainedValue().closeSocket(socket)
        }
    }

    /// Opens a socket for libcurl.
    func open(_ address: curl_sockaddr) -> curl_socket_t {
        let descriptor = socket(
            address.family, address.socktype | Int32(SOCK_CLOEXEC.rawValue), address.protocol)
        guard descriptor >= 0 else {
            if DescriptorLimit.meansShortage(errno) { shortages += 1 }
            return CURL_SOCKET_BAD
        }
        // Keep the last descriptors for files that are open only briefly, such as a directory or a journal.
        if ownCount > 0, DescriptorLimit.isForFiles(descriptor) {
            close(descriptor)
            shortages += 1
            return CURL_SOCKET_BAD
        }
        grow(to: descriptor)
        let hasPort = address.family == AF_INET || address.family == AF_INET6
        let digits = address.addr.sa_data
        let port = hasPort ? Int(UInt8(bitPattern: digits.0)) << 8 | Int(UInt8(bitPattern: digits.1)) : 0
        entries[Int(descriptor)] = Entry(isOwn: true, port: port)
        ownCount += 1
        return descriptor
    }

    /// Returns whether a connection to a port has died so recently that libcurl may not have checked idle connections
    /// since.
    func hasLostConnection(to port: Int) -> Bool {
        losses[port].map { runLoop.turnTime &- $0 < 1_100_000_000 } ?? false
    }

    @discardableResult func closeSocket(_ descriptor: curl_socket_t) -> Int32 {
        drop(descriptor)
        if Int(descriptor) < entries.count {
            if entries[Int(descriptor)].isOwn { ownCount -= 1 }
            entries[Int(descriptor)] = Entry()
        }
        return close(descriptor)
    }

    func watch(_ descriptor: curl_socket_t, for events: FileEvents, handler: any FileEventHandler) {
        grow(to: descriptor)
        let entry = entries[Int(descriptor)]
        entries[Int(descriptor)].isWanted = !events.isEmpty
        if !events.isEmpty { entries[Int(descriptor)].isIdle = false }
        if events.isEmpty, entry.isOwn, entry.registered == .readable { return }
        guard events != entry.registered else { return }
        entries[Int(descriptor)].registered = events
        do {
            try runLoop.watch(descriptor, for: events, handler: handler)
        } catch {
            // There is not enough memory to watch the socket, so the transfer will time out.
            entries[Int(descriptor)].registered = []
        }
    }

    func isWatched(_ descriptor: Int32) -> Bool {
        Int(descriptor) < entries.count && entries[Int(descriptor)].isWanted
    }

    /// Starts or stops ignoring the events of a socket whose transfer is paused for a turn.
    func setResting(_ descriptor: Int32, _ isResting: Bool) {
        if descriptor >= 0, Int(descriptor) < entries.count { entries[Int(descriptor)].isResting = isResting }
    }

    /// Records that the transfer of an HTTP/1 connection has ended, and watches for unsolicited bytes.
    ///
    /// - Parameter hasUnreadBytes: Whether bytes beyond the response have been received.
    func noteIdle(of descriptor: curl_socket_t, hasUnreadBytes: Bool, handler: any FileEventHandler) {
        // libcurl may already have closed the socket if the response was incomplete.
        guard descriptor >= 0, Int(descriptor) < entries.count, entries[Int(descriptor)].isOwn,
            !entries[Int(descriptor)].isWanted
        else { return }
        if hasUnreadBytes { return abandon(descriptor) }
        if entries[Int(descriptor)].registered != .readable {
            // The transfer never had to wait, so libcurl did not request events of the socket.
            watch(descriptor, for: .readable, handler: handler)
            entries[Int(descriptor)].isWanted = false
        }
        entries[Int(descriptor)].isIdle = true
    }

    /// Makes libcurl detect that a connection is dead. Over TLS, libcurl considers a connection with unread bytes
    /// alive.
    private func abandon(_ descriptor: curl_socket_t) {
        shutdown(descriptor, Int32(SHUT_RDWR))
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        for _ in 0..<64 { guard recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT)) > 0 else { break } }
    }

    /// Handles a socket that is ready although libcurl does not watch it.
    ///
    /// - Parameter mayBeInUse: Whether a transfer may be using its connection.
    func noteUnwanted(_ descriptor: Int32, mayBeInUse: @autoclosure () -> Bool) {
        if Int(descriptor) < entries.count, entries[Int(descriptor)].isResting { return }
        drop(descriptor)
        guard !mayBeInUse(), Int(descriptor) < entries.count, entries[Int(descriptor)].isIdle,
            entries[Int(descriptor)].isOwn
        else { return }
        if losses.count > 64 { losses = [:] }
        losses[entries[Int(descriptor)].port] = runLoop.turnTime
        // An unsolicited response would be mistaken for the response to the next request (RFC 9112, section 9.2).
        // libcurl 7.88 does not check for one, but does not use a connection that has been shut down. Over TLS, the
        // bytes may be a TLS message, which is rare between two requests.
        var byte: UInt8 = 0
        if recv(descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) > 0 { abandon(descriptor) }
    }

    /// Stops watching a socket.
    private func drop(_ descriptor: Int32) {
        guard Int(descriptor) < entries.count, !entries[Int(descriptor)].registered.isEmpty else { return }
        entries[Int(descriptor)].registered = []
        try? runLoop.unwatch(descriptor)
    }

    private func grow(to descriptor: Int32) {
        guard Int(descriptor) >= entries.count else { return }
        entries.append(contentsOf: repeatElement(Entry(), count: Int(descriptor) + 1 - entries.count))
    }
}
