extension TestServer {
    /// How a served file answers a request with a Range field (RFC 9110 section 14).
    public enum RangeBehaviour: Hashable, Sendable {
        /// As in the RFC: 206 for one satisfiable range, 416 for one that is not, 200 for anything else.
        case honoured
        /// Always 200 with the whole file.
        case ignored
        /// 206 that begins this many bytes later (or, if negative, earlier) than requested, with matching Content-Range
        /// and bytes.
        case wrongOffset(by: Int)
        /// 206 whose Content-Range announces a file that is one byte longer.
        case wrongTotal
        /// Always 416, with "Content-Range: bytes */N".
        case unsatisfiable
        /// 206 with the right bytes and no Content-Range.
        case noContentRange
        /// 206 with at most this many bytes of the requested range, which the RFC allows.
        case atMost(Int)
    }
}
