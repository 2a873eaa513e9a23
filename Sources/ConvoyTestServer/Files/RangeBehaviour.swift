extension TestServer {
    /// How a served file answers a request with a Range field (RFC 9110 section 14).
    public enum RangeBehaviour: Hashable, Sendable {
        /// As the RFC says: 206 for one satisfiable range, 416 for one that is not, 200 for anything else.
        case honoured
        /// Always 200 with the whole file.
        case ignored
        /// 206 that begins so many bytes later (or, negative, earlier) than asked, with a Content-Range and bytes that
        /// agree with each other.
        case wrongOffset(by: Int)
        /// 206 whose Content-Range announces a file that is one byte longer.
        case wrongTotal
        /// Always 416, with "Content-Range: bytes */N".
        case unsatisfiable
        /// 206 with the right bytes and no Content-Range.
        case noContentRange
        /// 206 with at most so many bytes of what was asked for, which the RFC allows.
        case atMost(Int)
    }
}
