import ConvoySupport
import Foundation

/// A name server that responds as specified by a test, on port 53 of 127.0.0.1.
///
/// The server is for a process in the namespaces that ``SilentNameServer/run(_:_:environment:retryInterval:timeout:)``
/// creates, in which it is the only name server.
public final class ScriptedNameServer: Sendable {
    /// Returns the addresses for a query. `count` is the number of previous queries for this name and kind.
    public typealias Script = @Sendable (_ name: String, _ isIPv6: Bool, _ count: Int) -> [String]

    private let counts = Locked<[String: Int]>([:])
    private let script: Script

    /// Brings the loopback interface up and responds until the process ends.
    public init(_ script: @escaping Script) throws {
        self.script = script
        let descriptor = try SilentNameServer.openPort()
        Thread { [self] in
            var query = [UInt8](repeating: 0, count: 512)
            var client = sockaddr_in()
            while true {
                var length = socklen_t(MemoryLayout<sockaddr_in>.size)
                let count = withUnsafeMutablePointer(to: &client) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        recvfrom(descriptor, &query, query.count, 0, $0, &length)
                    }
                }
                guard count > 0 else { break }
                guard let answer = answer(to: Array(query[..<count])) else { continue }
                _ = withUnsafePointer(to: &client) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        sendto(descriptor, answer, answer.count, 0, $0, length)
                    }
                }
            }
        }.start()
    }

    /// Returns the number of queries for a name.
    public func queries(for name: String) -> Int {
        counts.withLock { counts in ["4", "6"].reduce(0) { $0 + (counts["\($1) \(name)"] ?? 0) } }
    }

    /// Returns an answer to a query with one question (RFC 1035, section 4), with a time to live of 0.
    private func answer(to query: [UInt8]) -> [UInt8]? {
        var labels: [String] = []
        var position = 12
        while position < query.count, query[position] != 0 {
            let end = position + 1 + Int(query[position])
            guard end < query.count else { return nil }
            labels.append(String(decoding: query[(position + 1)..<end], as: UTF8.self))
            position = end
        }
        guard position + 5 <= query.count else { return nil }
        let question = query[12..<(position + 5)]
        let isIPv6 = query[position + 2] == 28
        guard isIPv6 || query[position + 2] == 1 else { return nil }
        let name = labels.joined(separator: ".").lowercased()
        let count = counts.withLock { counts in
            defer { counts["\(isIPv6 ? 6 : 4) \(name)", default: 0] += 1 }
            return counts["\(isIPv6 ? 6 : 4) \(name)"] ?? 0
        }
        let records = script(name, isIPv6, count).map { text -> [UInt8] in
            var bytes = [UInt8](repeating: 0, count: isIPv6 ? 16 : 4)
            inet_pton(isIPv6 ? AF_INET6 : AF_INET, text, &bytes)
            return [0xC0, 12, 0, isIPv6 ? 28 : 1, 0, 1, 0, 0, 0, 0, 0, UInt8(bytes.count)] + bytes
        }
        var answer = Array(query[..<2])
        answer += [0x85, 0x80, 0, 1, 0, UInt8(records.count), 0, 0, 0, 0]
        answer += question
        return records.reduce(into: answer) { $0 += $1 }
    }
}
