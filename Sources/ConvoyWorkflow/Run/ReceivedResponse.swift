import ConvoyCookies
import ConvoySerialization
import ConvoySupport
import Foundation

/// A received response, with its body in memory or in a file.
final class ReceivedResponse: Sendable {
    /// The maximum size of a file from which values are captured, in bytes.
    static let maximumLength = 256 << 20

    let status: Int?
    let fields: [(name: String, value: String)]
    /// The URL after redirects.
    let url: URL?
    let file: URL?
    let byteCount: Int64
    /// The time from the start of the operation to its end, in seconds.
    let seconds: Double
    private let cookies: CookieStore?
    /// The charset of the body that the server specifies, or nil.
    let label: String?
    let version: String
    private let body: Locked<Data?>
    private let tree = Locked<Result<JSON, EvaluationError>?>(nil)

    init(
        status: Int?, fields: [(name: String, value: String)], url: URL?, body: Data?, file: URL?, byteCount: Int64,
        seconds: Double, cookies: CookieStore? = nil, label: String? = nil, version: String = "HTTP/1.1"
    ) {
        (self.status, self.fields, self.url, self.file) = (status, fields, url, file)
        (self.byteCount, self.seconds, self.cookies) = (byteCount, seconds, cookies)
        self.label = label
        self.version = version
        self.body = Locked(body)
    }

    /// The body, which may be empty.
    var data: Data {
        if let data = body.withLock({ $0 }) { return data }
        guard let file, byteCount <= Self.maximumLength, let data = try? Data(contentsOf: file, options: .mappedIfSafe)
        else {
            return Data()
        }
        body.withLock { $0 = data }
        return data
    }

    /// The body as JSON, or nil if it is not JSON.
    var json: JSON? { try? parsed.get() }

    /// The body as JSON, or the reason why it is not JSON.
    private var parsed: Result<JSON, EvaluationError> {
        if let known = tree.withLock({ $0 }) { return known }
        let result = Result { () throws(EvaluationError) in
            guard !isTooLong else { throw Self.tooLong }
            return try JSON(body: data, label: label)
        }
        tree.withLock { $0 = result }
        return result
    }

    /// Whether the body is in a file that is too large to examine.
    private var isTooLong: Bool { file != nil && byteCount > Self.maximumLength }

    private static let tooLong = EvaluationError(message: "the body is larger than \(maximumLength >> 20) MiB")

    /// Returns the value of a field, with repeated fields joined, or nil if the response does not contain the field.
    func field(_ name: String) -> String? {
        let values = fields.filter { ASCII.equalIgnoringCase($0.name.utf8, name.utf8) }.map(\.value)
        return values.isEmpty ? nil : values.joined(separator: ", ")
    }

    /// The media type without parameters, or nil.
    var mediaType: String? {
        field("Content-Type").map {
            $0.prefix { $0 != ";" && $0 != "," }.trimmingCharacters(in: .whitespaces).lowercased()
        }
    }

    /// The body as text. A body with bytes that are invalid in its charset is repaired as UTF-8.
    var text: String {
        let data = data
        return Charset.ofText(data, label: label).text(of: data) ?? String(decoding: data, as: UTF8.self)
    }

    var isHTML: Bool {
        if let type = mediaType { return type == "text/html" }
        let start = String(decoding: data.prefix(256), as: UTF8.self).lowercased()
        return start.contains("<!doctype html") || start.contains("<html")
    }

    /// Returns the value of a capture, or nil if nothing is found.
    ///
    /// - Throws: The reason why the body cannot be searched.
    func value(of source: CaptureSource) throws(EvaluationError) -> JSON? {
        switch source {
        case .status: return status.map { .number(JSONNumber($0)) }
        case .url: return url.map { .string($0.absoluteString) }
        case .header(let name): return field(name).map { .string($0) }
        case .cookie(let name): return cookie(name).map { .string($0) }
        case .json(let path): return try path.finding(in: try parsed.get()).value
        case .text(let pattern, let group):
            guard !isTooLong else { throw Self.tooLong }
            guard let pattern else { return .string(text) }
            return try Pattern.firstMatch(of: pattern, group: group, in: text).map { .string($0) }
        case .xpath(let expression):
            guard !isTooLong else { throw Self.tooLong }
            let values = try XPath.values(of: expression, in: data, label: label, isHTML: isHTML)
            return values.isEmpty ? nil : .array(values.map { .string($0) })
        }
    }

    private func cookie(_ name: String) -> String? {
        for field in fields.reversed() where ASCII.equalIgnoringCase(field.name.utf8, "set-cookie".utf8) {
            let pair = field.value.prefix { $0 != ";" }
            guard let equals = pair.firstIndex(of: "="), pair[..<equals].trimmingCharacters(in: .whitespaces) == name else {
                continue
            }
            return pair[pair.index(after: equals)...].trimmingCharacters(in: .whitespaces)
        }
        return url.flatMap { cookies?.cookies(for: $0).first { $0.name == name }?.value }
    }
}
