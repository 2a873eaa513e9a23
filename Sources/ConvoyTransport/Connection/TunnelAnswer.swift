import ConvoySupport
import Foundation

/// What matters of the head of a proxy's answer to CONNECT: what it asks for.
struct TunnelAnswer {
    /// The values of `Proxy-Authenticate`.
    private(set) var challenges: [String] = []
    private var length = 0

    private static let mostBytes = 16 << 10

    mutating func take(_ line: UnsafeRawBufferPointer) {
        // A negotiation has several answers; the last one counts.
        if line.starts(with: "HTTP/".utf8) { self = TunnelAnswer() }
        length += line.count
        guard length <= Self.mostBytes, let colon = line.firstIndex(of: UInt8(ascii: ":")),
            ASCII.equalIgnoringCase(line[..<colon], "proxy-authenticate".utf8)
        else { return }
        challenges.append(ASCII.text(ASCII.trimmed(Array(line[(colon + 1)...])[...])))
    }
}
