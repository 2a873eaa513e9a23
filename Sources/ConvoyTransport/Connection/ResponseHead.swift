import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// The status line and the header fields of a response (RFC 9112, section 2), as they came.
///
/// Foundation's `HTTPURLResponse` is made from it when somebody asks, once: most of a small request's time would
/// go into making one that nobody reads.
public final class ResponseHead: Sendable {
    /// The URL that answered.
    public var url: URL {
        switch place {
        case .url(let url): url
        case .text(let text): URL(string: text) ?? URL(fileURLWithPath: "/")
        }
    }

    /// A URL, or the text of one: Foundation takes its time for making one of the other.
    enum Place: Sendable {
        case url(URL)
        case text(String)

        init(_ request: TransferRequest) {
            switch request {
            case .foundation(let request): self = .url(request.url ?? URL(fileURLWithPath: "/"))
            case .prepared(let request): self = .text(request.address)
            }
        }
    }

    private let place: Place
    /// The three digits of the status line.
    public let statusCode: Int
    /// How many bytes of body the server announced, as sent and not as decoded; nil where it did not.
    public let contentLength: Int64?
    /// Whether the server encoded the body (gzip, br, zstd …), so that its length and its byte positions are not
    /// those of the decoded bytes.
    public let isEncoded: Bool

    private let bytes: [UInt8]
    private let foundationResponse = Locked<HTTPURLResponse?>(nil)

    init(place: Place, statusCode: Int, contentLength: Int64?, isEncoded: Bool, bytes: [UInt8]) {
        self.place = place
        self.statusCode = statusCode
        self.contentLength = contentLength
        self.isEncoded = isEncoded
        self.bytes = bytes
    }

    /// Parses a head given as text, for a simulated server.
    package convenience init(url: URL, statusCode: Int, headers: [(String, String)]) {
        var text = "HTTP/1.1 \(statusCode) \r\n"
        for (name, value) in headers { text += "\(name): \(value)\r\n" }
        func value(_ wanted: String) -> String? { headers.first { $0.0.lowercased() == wanted }?.1 }
        self.init(
            place: .url(url), statusCode: statusCode, contentLength: value("content-length").flatMap { Int64($0) },
            isEncoded: (value("content-encoding") ?? "identity") != "identity", bytes: Array((text + "\r\n").utf8))
    }

    /// The version in the status line, such as `HTTP/1.1` or `HTTP/2`.
    public var httpVersion: String {
        let line = bytes.prefix { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }
        return String(decoding: line, as: UTF8.self)
    }

    /// The value of a header field, its name compared without regard to case; the values of a field that came
    /// several times are joined by `, ` (RFC 9110, section 5.3).
    public subscript(name: String) -> String? {
        var value: String?
        let wanted = Array(name.utf8)
        forEachField { field, content in
            guard ASCII.equalIgnoringCase(field, wanted) else { return }
            let text = ASCII.text(content)
            value = value.map { "\($0), \(text)" } ?? text
        }
        return value
    }

    /// All header fields, in the order in which they came, one entry for each line.
    public var fields: [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = []
        forEachField { fields.append((ASCII.text($0), ASCII.text($1))) }
        return fields
    }

    /// The same as Foundation's type. Made with the first use; nil only where Foundation refuses to make one.
    public var urlResponse: HTTPURLResponse? {
        if let made = foundationResponse.withLock({ $0 }) { return made }
        var joined: [String: String] = [:]
        var spelling: [String: String] = [:]
        for (name, value) in fields {
            let key = name.lowercased()
            let first = spelling[key] ?? name
            spelling[key] = first
            joined[first] = joined[first].map { "\($0), \(value)" } ?? value
        }
        let response = HTTPURLResponse(
            url: url, statusCode: statusCode, httpVersion: httpVersion, headerFields: joined)
        return foundationResponse.withLock { made in
            // Two threads may have made one: everybody gets the first.
            made = made ?? response
            return made
        }
    }

    private func forEachField(_ body: (_ name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) -> Void) {
        var position = bytes.startIndex
        var isStatusLine = true
        while position < bytes.endIndex {
            let end = bytes[position...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.endIndex
            let line = bytes[position..<end]
            position = min(end + 1, bytes.endIndex)
            if isStatusLine {
                isStatusLine = false
            } else if let colon = line.firstIndex(of: UInt8(ascii: ":")) {
                body(line[..<colon], ASCII.trimmed(line[(colon + 1)...]))
            }
        }
    }
}
