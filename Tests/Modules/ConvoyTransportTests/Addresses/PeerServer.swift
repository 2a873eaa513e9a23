import CEpoll
import ConvoySupport
import ConvoyTestSupport
import Foundation

/// A server on all local addresses that responds with the client's address and the number of the connection.
final class PeerServer: Sendable {
    let port: UInt16
    private let listener: Int32
    private let open = Locked<Set<Int32>>([])
    private let threads = DispatchGroup()

    init() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        self.listener = listener
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, length) == 0 && listen(listener, 64) == 0
                    ? getsockname(listener, address, &length) : -1
            }
        }
        guard result == 0 else { throw RawClient.Failure.system("bind", errno) }
        port = UInt16(bigEndian: address.sin_port)
        let threads = threads
        threads.enter()
        Thread { [weak self] in
            var number = 0
            while true {
                var peer = sockaddr_in()
                var length = socklen_t(MemoryLayout<sockaddr_in>.size)
                let client = withUnsafeMutablePointer(to: &peer) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        accept4(listener, $0, &length, Int32(SOCK_CLOEXEC.rawValue))
                    }
                }
                guard client >= 0 else { break }
                number += 1
                let bytes = withUnsafeBytes(of: &peer.sin_addr) { Array($0) }
                self?.begin(client, "\(bytes.map(String.init).joined(separator: ".")) \(number)")
            }
            close(listener)
            threads.leave()
        }.start()
    }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        open.withLock { for client in $0 { shutdown(client, Int32(SHUT_RDWR)) } }
        threads.wait()
    }

    private func begin(_ client: Int32, _ text: String) {
        _ = open.withLock { $0.insert(client) }
        threads.enter()
        Thread { [self] in
            let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
            var head = ""
            var bytes = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = recv(client, &bytes, bytes.count, 0)
                guard count > 0 else { break }
                head += String(decoding: bytes[..<count], as: UTF8.self)
                guard head.hasSuffix("\r\n\r\n") else { continue }
                head = ""
                send(client, answer, answer.count, Int32(MSG_NOSIGNAL))
            }
            _ = open.withLock { $0.remove(client) }
            close(client)
            threads.leave()
        }.start()
    }
}
