import ConvoySupport
import Foundation

/// When the phases of one request ended, in seconds from its start. A connection that was there already has its name, its
/// connecting and its TLS behind it at once.
public struct TransferTiming: Sendable, Hashable {
    /// The name of the host was found; nil if it was not.
    public let nameFound: TimeInterval?
    /// The connection to the server, or to its proxy, was made; nil if it was not.
    public let connected: TimeInterval?
    /// TLS, and a tunnel through a proxy, were ready; nil for plain text.
    public let secured: TimeInterval?
    /// The first byte of the response came; nil if none did.
    public let firstByte: TimeInterval?
    /// The request had ended, with a whole response or an error.
    public let ended: TimeInterval

    /// - Parameters: as libcurl has them, where 0 stands for what was never reached.
    init(nameFound: Double, connected: Double, secured: Double, firstByte: Double, ended: Double) {
        // Of a connection that was there already libcurl says 0.
        let isConnected = connected > 0 || firstByte > 0
        self.nameFound = nameFound > 0 || isConnected ? nameFound : nil
        self.connected = isConnected ? max(nameFound, connected) : nil
        self.secured = secured > 0 ? max(nameFound, connected, secured) : nil
        self.firstByte = firstByte > 0 ? max(nameFound, connected, secured, firstByte) : nil
        self.ended = max(nameFound, connected, secured, firstByte, ended)
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
