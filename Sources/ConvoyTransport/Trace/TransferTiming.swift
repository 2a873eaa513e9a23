import ConvoySupport
import Foundation

/// When the phases of one request ended, in seconds from its start. A connection that was there already has its name, its
/// connecting and its TLS behind it at once.
public struct TransferTiming: Sendable, Hashable {
    /// The name of the host was found.
    public let nameFound: TimeInterval
    /// The connection to the server, or to its proxy, was made.
    public let connected: TimeInterval
    /// TLS, and a tunnel through a proxy, were ready; nil for plain text.
    public let secured: TimeInterval?
    /// The first byte of the response came; nil if none did.
    public let firstByte: TimeInterval?
    /// The request had ended, with a whole response or an error.
    public let ended: TimeInterval

    /// - Parameters: as libcurl has them, where 0 stands for what was never reached.
    init(nameFound: Double, connected: Double, secured: Double, firstByte: Double, ended: Double) {
        self.nameFound = nameFound
        self.connected = connected
        self.secured = secured > 0 ? secured : nil
        self.firstByte = firstByte > 0 ? firstByte : nil
        self.ended = ended
    }
}

extension TransferTiming: CustomStringConvertible {
    /// The times to the millisecond: `name 0.004 s, connect 0.021 s, TLS 0.055 s, first byte 0.081 s, total 0.492 s`.
    public var description: String {
        let phases: [(String, TimeInterval?)] = [
            ("name", nameFound), ("connect", connected), ("TLS", secured), ("first byte", firstByte), ("total", ended),
        ]
        return phases.compactMap { name, time in time.map { "\(name) \(String(format: "%.3f", $0)) s" } }
            .joined(separator: ", ")
    }
}
