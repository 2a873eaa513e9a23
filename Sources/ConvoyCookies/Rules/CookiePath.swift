/// Paths of cookies and requests (RFC 6265bis, section 5.1.4). They are compared byte by byte: `%6F` is not `o`.
enum CookiePath {
    /// The path of a cookie whose server has not set one: the directory of the request.
    static func defaultPath(of path: String) -> String {
        guard path.utf8.first == UInt8(ascii: "/"), let end = path.utf8.lastIndex(of: UInt8(ascii: "/")),
            end > path.utf8.startIndex
        else { return "/" }
        return String(path[..<end])
    }

    /// Whether a request for a path gets the cookies of another one.
    static func matches(_ request: String, _ cookie: String) -> Bool {
        if cookie == "/" { return request.utf8.first == UInt8(ascii: "/") }
        let (request, cookie) = (request.utf8, cookie.utf8)
        guard request.starts(with: cookie) else { return false }
        guard let next = request.dropFirst(cookie.count).first else { return true }
        return next == UInt8(ascii: "/") || cookie.last == UInt8(ascii: "/")
    }
}
