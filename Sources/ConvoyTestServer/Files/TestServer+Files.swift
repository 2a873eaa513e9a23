import Foundation

extension TestServer {
    /// Serves bytes as a static file: GET and HEAD, ETag and Last-Modified, conditional requests (RFC 9110 section 13)
    /// and single byte ranges (section 14). A request for several ranges gives the whole file with 200.
    ///
    /// Serving again under the same path replaces the file, so that it can change between two requests.
    ///
    /// - Parameters:
    ///   - data: The file.
    ///   - path: The path, or a prefix that ends in "*".
    ///   - type: The content type.
    ///   - etag: The entity tag as on the wire, including quotes and "W/".
    ///   - lastModified: Sent, and compared, in whole seconds.
    ///   - ranges: How a Range field is answered.
    ///   - adjust: Called on a handler thread with the request and the response, which it may change, for example to
    ///     break off the first transfer and let the resumed one succeed.
    public func serve(
        _ data: Data, at path: String, type: String = "application/octet-stream", etag: String? = nil,
        lastModified: Date? = nil, ranges: RangeBehaviour = .honoured,
        adjust: (@Sendable (RecordedRequest, Response) -> Response)? = nil
    ) {
        let file = ServedFile(
            content: .data(data), contentType: type, etag: etag, lastModified: lastModified, ranges: ranges)
        serve(file, at: path, adjust)
    }

    /// Serves a file of `count` bytes of `PatternBytes`, which are generated while they are sent: many GiB take no
    /// memory.
    public func servePattern(
        count: Int, at path: String, etag: String? = nil, lastModified: Date? = nil,
        ranges: RangeBehaviour = .honoured, adjust: (@Sendable (RecordedRequest, Response) -> Response)? = nil
    ) {
        let file = ServedFile(
            content: .pattern(count: max(0, count), offset: 0), contentType: "application/octet-stream", etag: etag,
            lastModified: lastModified, ranges: ranges)
        serve(file, at: path, adjust)
    }

    private func serve(_ file: ServedFile, at path: String, _ adjust: (@Sendable (RecordedRequest, Response) -> Response)?) {
        guard let adjust else { return state.setRoute(.computed { file.response(to: $0) }, [], nil, path) }
        state.setRoute(.handler { adjust($0, file.response(to: $0)) }, [], nil, path)
    }
}
