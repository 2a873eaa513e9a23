import ConvoySecurity
import ConvoySupport
import Foundation

/// The position of a request in a distributed trace: the `traceparent` and `tracestate` fields of W3C Trace Context,
/// level 1.
///
/// An operation with a trace context sends it with every request of its attempts, so that the called services can
/// relate their work to the trace.
public struct TraceContext: Sendable, Hashable {
    /// The identifier of the whole trace: 16 bytes, not all of them zero.
    public let traceID: [UInt8]
    /// The identifier of the caller's span in the trace: 8 bytes, not all of them zero.
    public let parentID: [UInt8]
    /// Whether the caller may have recorded the trace.
    public let isSampled: Bool
    /// The value of `tracestate`, the state of tracing systems, if any.
    public let state: String?

    /// Creates a context.
    ///
    /// - Returns: The context; nil for an identifier with the wrong length or only zeros, and for a state that is not a
    ///   valid field value.
    public init?(traceID: [UInt8], parentID: [UInt8], isSampled: Bool, state: String? = nil) {
        guard traceID.count == 16, parentID.count == 8, traceID.contains(where: { $0 != 0 }),
            parentID.contains(where: { $0 != 0 }), state.map(HTTPSyntax.isFieldValue) ?? true
        else { return nil }
        self.traceID = traceID
        self.parentID = parentID
        self.isSampled = isSampled
        self.state = state.flatMap { $0.isEmpty ? nil : $0 }
    }

    private init(traceID: [UInt8], parentID: [UInt8], sampled: Bool, state: String?) {
        self.traceID = traceID
        self.parentID = parentID
        isSampled = sampled
        self.state = state
    }

    /// Returns the root of a new trace, with random identifiers.
    public static func root(isSampled: Bool = true) -> TraceContext {
        TraceContext(traceID: random(16), parentID: random(8), sampled: isSampled, state: nil)
    }

    /// Returns the context of a new span in the same trace, with a random identifier.
    public func child() -> TraceContext {
        TraceContext(traceID: traceID, parentID: Self.random(8), sampled: isSampled, state: state)
    }

    private static func random(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        while true {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            if bytes.contains(where: { $0 != 0 }) { return bytes }
        }
    }

    /// Creates the context of an incoming request (section 3.2.2), for the requests that a server sends while handling
    /// it.
    ///
    /// - Parameters:
    ///   - traceparent: The value of the `traceparent` field. Additions of later versions are ignored.
    ///   - tracestate: The value of the `tracestate` field, if any, with its lines joined by commas. An invalid value
    ///     is ignored.
    /// - Returns: The context; nil for an invalid `traceparent`.
    public init?(traceparent: String, tracestate: String? = nil) {
        let parts = traceparent.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard parts.count >= 4, let version = Self.bytes(parts[0], count: 1), version != [0xFF],
            version != [0] || parts.count == 4, let traceID = Self.bytes(parts[1], count: 16),
            let parentID = Self.bytes(parts[2], count: 8), let flags = Self.bytes(parts[3], count: 1)
        else { return nil }
        let state = tracestate.flatMap { HTTPSyntax.isFieldValue($0) && $0.utf8.count <= 8192 ? $0 : nil }
        self.init(traceID: traceID, parentID: parentID, isSampled: flags[0] & 1 != 0, state: state)
    }

    /// Returns the bytes encoded by lowercase hexadecimal digits; nil if the digits are invalid.
    private static func bytes(_ digits: Substring.UTF8View, count: Int) -> [UInt8]? {
        let uppercase = UInt8(ascii: "A")...UInt8(ascii: "F")
        guard digits.count == 2 * count, !digits.contains(where: uppercase.contains) else { return nil }
        return ASCII.bytes(ofHexadecimal: Array(digits))
    }

    /// The value of the `traceparent` field.
    public var traceparent: String {
        "00-\(Data(traceID).hexadecimalString)-\(Data(parentID).hexadecimalString)-\(isSampled ? "01" : "00")"
    }
}

extension TraceContext: CustomStringConvertible {
    /// The value of the `traceparent` field.
    public var description: String { traceparent }
}
