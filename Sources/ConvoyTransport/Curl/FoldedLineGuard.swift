import CCurl
import ConvoySupport

/// A guard that hides from libcurl the header lines with which a server could crash the program.
///
/// libcurl 7.83 to 7.88 (see ``CurlQuirks``) keeps a dangling pointer to the last field of the handle's previous response, and uses it if
/// the first field of a response is a folded line. The trace callback receives a line before libcurl processes it.
/// Tracing is therefore enabled from the status line to the first field, and a folded line in between is disguised as
/// an empty line, which libcurl passes on unparsed.
struct FoldedLineGuard {
    /// The workaround that a libcurl version needs.
    enum Need {
        case nothing
        case hidingOfLine
        /// The version is affected, but hiding lines has not been tested with it, so no handle is reused for a second
        /// response.
        case newHandle
    }

    private var isTracing = false
    /// Whether tracing is always enabled, for a `ConnectionTrace`.
    private var isTraced = false
    /// Whether a field has arrived, so that the pointer refers to a field of this response.
    private var hasField = false
    private var isHidden = false

    /// Prepares for the next transfer, which may be fully traced.
    mutating func reset(_ easy: UnsafeMutableRawPointer, isTraced: Bool) {
        hasField = false
        isHidden = false
        trace(easy, false)
        guard isTraced != self.isTraced else { return }
        convoy_easy_set_long(easy, CURLOPT_VERBOSE, isTraced ? 1 : 0)
        self.isTraced = isTraced
    }

    private mutating func trace(_ easy: UnsafeMutableRawPointer, _ isTracing: Bool) {
        guard isTracing != self.isTracing else { return }
        if !isTraced { convoy_easy_set_long(easy, CURLOPT_VERBOSE, isTracing ? 1 : 0) }
        self.isTracing = isTracing
    }

    /// Hides a traced line that libcurl must not parse. Lines of a proxy's response to CONNECT, which reach only a
    /// `ConnectionTrace`, are not passed on and therefore must not be hidden.
    mutating func look(at line: UnsafeMutableRawBufferPointer) {
        guard isTracing, !hasField, let first = line.first, HTTPSyntax.isOptionalWhitespace(first) else { return }
        line[0] = UInt8(ascii: "\r")
        isHidden = true
    }

    /// Handles a line of a head after libcurl has processed it, and restores the line if it was hidden.
    mutating func pass(_ line: UnsafeMutableRawBufferPointer, _ easy: UnsafeMutableRawPointer) {
        guard !hasField, let first = line.first else { return }
        if isHidden {
            line[0] = UInt8(ascii: " ")
            isHidden = false
        } else if first == UInt8(ascii: "\r") || first == UInt8(ascii: "\n")
            || UnsafeRawBufferPointer(line).begins(with: "HTTP/")
        {
            // The line ends an interim head without fields, or is a status line.
            trace(easy, true)
        } else {
            hasField = true
            trace(easy, false)
        }
    }
}
