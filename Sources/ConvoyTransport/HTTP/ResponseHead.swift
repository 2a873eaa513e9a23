import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// The status line and the header fields of a response (RFC 9112, section 2), as received.
///
/// Foundation's `HTTPURLResponse` is created from it only on demand, and only once, because that would take most of the
/// time of a small request.
public final class ResponseHead: Sendable {
    /// The URL of the response.
    public var url: URL {
        switch place {
        case .url(let url): url
        case .text(let text): URL(string: text) ?? URL(fileURLWithPath: "/")
        }
    }

    /// A URL or its string. Converting one to the other takes time in Foundation, so only the form at hand is stored.
    enum Place: Sendable {
        case url(URL)
        case text(String)

        init(_ request: TransferRequest) {
            if !request.isFoundationRequest, let address = request.address {
                self = .text(address.text)
            } else {
                self = .url(request.url ?? URL(fileURLWithPath: "/"))
            }
        }
    }

    private let place: Place
    /// The status code.
    public let statusCode: Int
    /// The length of the body before decoding, as announced by the server; nil if it was not announced.
    public let contentLength: Int64?
    /// Whether the body is encoded (gzip, br, zstd …), so that its length and byte positions differ from those of the
    /// decoded bytes.
    public let isEncoded: Bool

    /// The reason why the cache served the response; nil for a response from the network.
    public let cacheUse: CacheUse?

    private let bytes: [UInt8]
    private let foundationResponse = Locked<HTTPURLResponse?>(nil)

    init(place: Place, statusCode: Int, contentLength: Int64?, isEncoded: Bool, bytes: [UInt8], cacheUse: CacheUse? = nil) {
        self.place = place
        self.statusCode = statusCode
        self.contentLength = contentLength
        self.isEncoded = isEncoded
        self.bytes = bytes
        self.cacheUse = cacheUse
    }

    /// Creates a head from its values, for a simulated server.
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

    /// The value of a header field. Names are case-insensitive. The values of a repeated field are joined with `, `
    /// (RFC 9110, section 5.3). `Content-Type` is not a list: a line that repeats the same type is ignored (section
    /// 8.3).
    public subscript(name: String) -> String? {
        var value: String?
        forEachLine(of: name) { Self.add(ASCII.text($0), to: &value, of: name) }
        return value
    }

    /// Adds the value of another line of a field. The line is appended in place, because a server may repeat a field
    /// ten thousand times.
    private static func add(_ line: String, to value: inout String?, of name: String) {
        if value == nil {
            value = line
        } else if !HTTPSyntax.isSameField(name, "Content-Type") || value != line {
            value?.append(", " + line)
        }
    }

    /// Returns the value of a field in a form that can be sent back to the server; nil if the field is missing, cannot
    /// be sent, or is repeated with a different value.
    package func echoedValue(of name: String) -> SafeFieldValue? {
        let values = bytes(of: name)
        guard let first = values.first, values.dropFirst().allSatisfy({ $0 == first }) else { return nil }
        return SafeFieldValue(first)
    }

    /// Returns the values of all lines of a field, one per line. Names are case-insensitive.
    package func values(of name: String) -> [String] { bytes(of: name).map { ASCII.text($0[...]) } }

    /// Returns the values of a header field as received, one per line. Names are case-insensitive.
    ///
    /// - Parameter limit: The maximum number of lines to return.
    package func bytes(of name: String, limit: Int = .max) -> [[UInt8]] {
        var values: [[UInt8]] = []
        forEachLine(of: name) { if values.count < limit { values.append(Array($0)) } }
        return values
    }

    /// Whether the server or a proxy requires authentication.
    package var asksForCredentials: Bool { statusCode == 401 || statusCode == 407 }

    /// All header fields in the order received, one entry per line.
    public var fields: [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = []
        forEachField { fields.append((ASCII.text($0), ASCII.text($1))) }
        return fields
    }

    /// The response as Foundation's type, created on first use; nil only if Foundation fails to create it.
    public var urlResponse: HTTPURLResponse? {
        if let made = foundationResponse.withLock({ $0 }) { return made }
        var joined: [String: String] = [:]
        var spelling: [String: String] = [:]
        for (name, value) in fields {
            let key = name.lowercased()
            let first = spelling[key] ?? name
            spelling[key] = first
            Self.add(value, to: &joined[first], of: key)
        }
        let response = HTTPURLResponse(
            url: url, statusCode: statusCode, httpVersion: httpVersion, headerFields: joined)
        return foundationResponse.withLock { made in
            // If another thread has created a response in the meantime, use that one.
            made = made ?? response
            return made
        }
    }

    /// Returns whether any field has one of the given names, which must be ASCII. Case does not matter.
    package func hasField(_ names: StaticString...) -> Bool {
        var isFound = false
        bytes.withUnsafeBytes { bytes in
            FieldLines.forEachLine(in: bytes) { line in
                isFound = isFound || names.contains { line.isField($0) }
            }
        }
        return isFound
    }

    /// Calls a closure with the value of each line of a field.
    private func forEachLine(of name: String, _ body: (_ value: UnsafeRawBufferPointer) -> Void) {
        var name = name
        name.withUTF8 { name in
            bytes.withUnsafeBytes { bytes in
                FieldLines.forEachLine(in: bytes) { line in
                    guard line.count > name.count, line[name.count] == UInt8(ascii: ":"),
                        ASCII.equalIgnoringCase(line[..<name.count], name)
                    else { return }
                    body(UnsafeRawBufferPointer(rebasing: ASCII.trimmed(line[(name.count + 1)...])))
                }
            }
        }
    }

    /// Calls a closure with each field, without whitespace around its value.
    func forEachField(_ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Void) {
        bytes.withUnsafeBytes { FieldLines.forEachField(in: $0, body) }
    }
}

extension UnsafeRawBufferPointer {
    /// Returns whether a line is a field with the given name, which must be ASCII.
    fileprivate func isField(_ name: StaticString) -> Bool {
        let length = name.utf8CodeUnitCount
        return count > length && self[length] == UInt8(ascii: ":")
            && UnsafeRawBufferPointer(rebasing: self[..<length]).isEqualIgnoringCase(to: name)
    }
}

extension ResponseHead: OpaqueReflectable {}
