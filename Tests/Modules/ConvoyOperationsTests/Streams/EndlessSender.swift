import ConvoySupport
import ConvoyTestSupport
import Foundation
import Glibc

/// A server on 127.0.0.1 that sends endless lines, serving one client after another, as fast as the client reads them.
/// It reports its progress and when the client has gone.
final class EndlessSender: Sendable {
    struct Progress {
        /// The number of bytes accepted by the kernel.
        var sent = 0
        /// The time at which the kernel stopped accepting bytes; nil while it accepts them.
        var stuckSince: DispatchTime?
        /// The times at which each client had gone.
        var ends: [DispatchTime] = []
    }

    /// The number of bytes in a line, including its terminator.
    static let lineLength = 100
    /// `POLLRDHUP`, which Swift does not import.
    private static let hangUp: Int16 = 0x2000

    let port: UInt16
    private let listener: Int32
    private let state = Locked(Progress())
    private let end = DispatchGroup()

    var progress: Progress { state.withLock { $0 } }
    var url: URL? { URL(string: "http://127.0.0.1:\(port)/lines") }

    init() throws {
        (listener, port) = try LoopbackPort.listener()
        end.enter()
        Thread { [self, end] in
            while true {
                let client = accept(listener, nil, nil)
                if client < 0 { break }
                serve(client)
                close(client)
                state.withLock { $0.ends.append(.now()) }
            }
            close(listener)
            end.leave()
        }.start()
    }

    /// Returns whether the kernel has accepted nothing for a while, because all buffers up to the reader are full.
    func isStuck() -> Bool {
        progress.stuckSince.map { DispatchTime.now() > $0 + 0.5 } ?? false
    }

    /// Stops the server after its client has gone.
    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        end.wait()
    }

    private func serve(_ client: Int32) {
        var request = [UInt8](repeating: 0, count: 16 << 10)
        _ = recv(client, &request, request.count, 0)
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
        _ = send(client, head, head.utf8.count, Int32(MSG_NOSIGNAL))
        state.withLock { $0.sent = 0 }
        let line = [UInt8](repeating: UInt8(ascii: "x"), count: Self.lineLength - 1) + [UInt8(ascii: "\n")]
        let block = [UInt8]((0..<64).map { _ in line }.joined())
        var offset = 0
        while true {
            let rest = Array(block[offset...])
            let count = send(client, rest, rest.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
            if count > 0 {
                offset = (offset + count) % block.count
                state.withLock { ($0.sent, $0.stuckSince) = ($0.sent + count, nil) }
            } else if errno == EAGAIN {
                state.withLock { $0.stuckSince = $0.stuckSince ?? .now() }
                var poll = pollfd(fd: client, events: Int16(POLLOUT) | Self.hangUp, revents: 0)
                _ = Glibc.poll(&poll, 1, -1)
                if poll.revents & (Self.hangUp | Int16(POLLHUP) | Int16(POLLERR)) != 0 { return }
            } else {
                return
            }
        }
    }
}
