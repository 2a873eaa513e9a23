import CCurl
import ConvoySupport

/// Keeps libcurl from a line that would let a server end the program.
///
/// From 7.83 to 7.88 libcurl keeps a pointer to the last field of a handle's earlier response, whose memory is free by
/// then, and a response whose first field is a folded line makes it use that pointer. The trace shows a line before
/// libcurl uses it. So the trace is switched on with the status line and off with the first field, and a folded line in
/// between is made to look like an empty one, which libcurl passes on without a further look.
struct FoldedLineGuard {
    /// What a version of libcurl needs.
    enum Need {
        case nothing
        case hidingOfLine
        /// The same, but nobody has looked at how that version works: no handle is used for a second response.
        case newHandle
    }

    static let need: Need = {
        switch convoy_version()?.pointee.version_num ?? 0 {
        case 0x07_58_00...0x07_58_ff: .hidingOfLine
        case ..<0x07_53_00, 0x08_00_00...: .nothing
        default: .newHandle
        }
    }()

    private var isTracing = false
    /// Whether a field has come: then the pointer is that of a field of this response.
    private var hasField = false
    private var isHidden = false

    /// Makes ready for another transfer.
    mutating func reset(_ easy: UnsafeMutableRawPointer) {
        hasField = false
        isHidden = false
        trace(easy, false)
    }

    private mutating func trace(_ easy: UnsafeMutableRawPointer, _ isTracing: Bool) {
        guard isTracing != self.isTracing else { return }
        convoy_easy_set_long(easy, CURLOPT_VERBOSE, isTracing ? 1 : 0)
        self.isTracing = isTracing
    }

    /// A line is traced, before libcurl uses it.
    mutating func look(at line: UnsafeMutableRawBufferPointer) {
        guard !hasField, let first = line.first, first == UInt8(ascii: " ") || first == UInt8(ascii: "\t") else { return }
        line[0] = UInt8(ascii: "\r")
        isHidden = true
    }

    /// A line of a head has come, after libcurl's own use of it. Gives back what was hidden of it.
    mutating func pass(_ line: UnsafeMutableRawBufferPointer, _ easy: UnsafeMutableRawPointer) {
        guard !hasField, let first = line.first else { return }
        if isHidden {
            line[0] = UInt8(ascii: " ")
            isHidden = false
        } else if first == UInt8(ascii: "\r") || first == UInt8(ascii: "\n") || line.starts(with: "HTTP/".utf8) {
            // The end of an interim head without fields, or a status line.
            trace(easy, true)
        } else {
            hasField = true
            trace(easy, false)
        }
    }
}
