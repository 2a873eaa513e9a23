import ConvoyOperations
import ConvoySupport
import Foundation

/// The requests of operations in the HTTP Archive format, HAR 1.2, which browser developer tools and other viewers can
/// read: the requests, the responses, and the duration of each phase.
///
/// Each operation is a page, and each of its requests an entry, including redirects, retries, the parts of a download,
/// and cached responses. Bodies are not included.
package struct HARLog: Sendable, Hashable {
    /// An operation.
    package struct Page: Sendable, Hashable {
        /// The identifier of the operation in its entries.
        package var id: String
        /// The method and the URL of the operation's first request, without secrets.
        package var title: String
        /// The time when the operation was created.
        package var startedDate: Date
        /// The time until the operation finished, in milliseconds; nil if it has not finished.
        package var duration: Double?
    }

    /// A request and its response.
    package struct Entry: Sendable, Hashable {
        /// The page to which the entry belongs.
        package var page: String
        /// The time when the request began.
        package var startedDate: Date
        /// The request as sent, without its body.
        package var request: HARRequest
        /// The response as received, without its body.
        package var response: HARResponse
        /// The duration of each phase.
        package var timings: HARTimings
        /// The address that was connected to; nil without a connection.
        package var serverAddress: String?
        /// The local port, which distinguishes connections; nil without a connection.
        package var connection: String?
        /// The reason why a cached response was served, as a `CacheUse` value; nil for a response from the network.
        package var cacheUse: String?
        /// A comment on the entry.
        package var comment: String?
    }

    /// The operations, in the order in which they were created.
    package var pages: [Page] = []
    /// The requests, in the order in which they began.
    package var entries: [Entry] = []

    /// Creates an empty log.
    package init() {}

    /// Returns the log as JSON in UTF-8.
    package func data() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(self)
    }

    /// Writes the log to a file, replacing an existing one. The file mode is 0600 because the log shows the program's
    /// requests. Blocks.
    ///
    /// If the path is a link owned by this user, its target is replaced.
    ///
    /// - Throws: An error in `NSPOSIXErrorDomain`, or the encoder's error. The file is then unchanged.
    package func write(to file: URL) throws {
        let bytes = [UInt8](try data())
        do throws(PrivateFile.Failure) {
            try PrivateFile.replace(file.path, with: bytes)
        } catch {
            throw error.error(path: file.path)
        }
    }
}

/// A request in HAR's form. Sizes are in bytes, -1 if unknown.
package struct HARRequest: Sendable, Hashable {
    /// The request method.
    package var method: String
    /// The request URL.
    package var url: String
    /// The version, such as `HTTP/1.1`; empty without a response.
    package var httpVersion: String
    /// The header fields as they were sent.
    package var headers: [HARField]
    /// The items of the query.
    package var queryString: [HARField]
    /// The cookies that were sent.
    package var cookies: [HARCookie]
    /// The length of the head.
    package var headersSize: Int64
    /// The length of the body.
    package var bodySize: Int64
    /// The media type of the body; nil without a body.
    package var bodyType: String?
}

/// A response, or the reason why it is missing.
package struct HARResponse: Sendable, Hashable {
    /// The status code; 0 without a response.
    package var status: Int
    /// The reason phrase of the status code.
    package var statusText: String
    /// The version, such as `HTTP/1.1`; empty without a response.
    package var httpVersion: String
    /// The header fields as they were received.
    package var headers: [HARField]
    /// The cookies that were set.
    package var cookies: [HARCookie]
    /// The target of a redirect; empty for other responses.
    package var redirectURL: String
    /// The length of the heads in bytes, including interim ones; -1 if unknown.
    package var headersSize: Int64
    /// The length of the body in bytes as received; -1 if unknown.
    package var bodySize: Int64
    /// The length of the body without its content coding.
    package var contentSize: Int64
    /// The media type of the body.
    package var mimeType: String
    /// The reason why the response is missing; nil if it exists.
    package var error: String?
}

/// A header field, or an item of a query.
package struct HARField: Sendable, Hashable, Encodable {
    /// The name of the field or item.
    package var name: String
    /// The value; `***` for a secret.
    package var value: String
}

/// A cookie of a request or of a response.
package struct HARCookie: Sendable, Hashable {
    /// The name of the cookie.
    package var name: String
    /// The value; `***`, unless secrets are included.
    package var value: String
    /// The `Path` attribute, if any.
    package var path: String?
    /// The `Domain` attribute, if any.
    package var domain: String?
    /// The expiry date; nil for a session cookie.
    package var expires: Date?
    /// Whether the cookie is hidden from scripts.
    package var isHTTPOnly = false
    /// Whether the cookie is sent only over TLS.
    package var isSecure = false
}

/// The durations of a request's phases, in milliseconds; nil for phases that did not occur.
package struct HARTimings: Sendable, Hashable {
    /// The time the request waited.
    package var blocked: Double?
    /// The time of the name lookup.
    package var dns: Double?
    /// The time to establish the connection, including proxies and TLS.
    package var connect: Double?
    /// The time of the TLS handshake, a part of ``connect``.
    package var ssl: Double?
    /// The time to send the request.
    package var send: Double = 0
    /// The time between sending the request and the start of the response.
    package var wait: Double = 0
    /// The time to receive the response.
    package var receive: Double = 0

    /// The sum of the phases, in milliseconds.
    package var total: Double { (blocked ?? 0) + (dns ?? 0) + (connect ?? 0) + send + wait + receive }
}

// The following members are named as in HAR 1.2. Additional members begin with an underscore.

extension HARLog: Encodable {
    /// Encodes the log as the root object of a HAR file.
    package func encode(to encoder: any Encoder) throws {
        let pages = pages.map { page in
            HARObject([
                "id": page.id, "title": page.title, "startedDateTime": HARDate.text(page.startedDate),
                "pageTimings": HARObject(["onLoad": page.duration ?? -1]),
            ])
        }
        let entries = entries.map { entry in
            HARObject([
                "pageref": entry.page, "startedDateTime": HARDate.text(entry.startedDate), "time": entry.timings.total,
                "request": entry.request, "response": entry.response, "cache": HARObject([:]), "timings": entry.timings,
                "serverIPAddress": entry.serverAddress, "connection": entry.connection, "_cacheUse": entry.cacheUse,
                "comment": entry.comment,
            ])
        }
        let log = HARObject([
            "version": "1.2", "creator": HARObject(["name": "Convoy", "version": ConvoyVersion.text]), "pages": pages,
            "entries": entries,
        ])
        try HARObject(["log": log]).encode(to: encoder)
    }
}

extension HARRequest: Encodable {
    /// Encodes the request in HAR's form.
    package func encode(to encoder: any Encoder) throws {
        try HARObject([
            "method": method, "url": url, "httpVersion": httpVersion, "cookies": cookies, "headers": headers,
            "queryString": queryString, "headersSize": headersSize, "bodySize": bodySize,
            "postData": bodyType.map { HARObject(["mimeType": $0, "text": ""]) },
        ]).encode(to: encoder)
    }
}

extension HARResponse: Encodable {
    /// Encodes the response in HAR's form, including its content.
    package func encode(to encoder: any Encoder) throws {
        let saved = bodySize >= 0 && contentSize != bodySize ? contentSize - bodySize : nil
        try HARObject([
            "status": status, "statusText": statusText, "httpVersion": httpVersion, "cookies": cookies, "headers": headers,
            "redirectURL": redirectURL, "headersSize": headersSize, "bodySize": bodySize, "_error": error,
            "content": HARObject(["size": contentSize, "mimeType": mimeType, "compression": saved]),
        ]).encode(to: encoder)
    }
}

extension HARCookie: Encodable {
    /// Encodes the cookie in HAR's form.
    package func encode(to encoder: any Encoder) throws {
        try HARObject([
            "name": name, "value": value, "path": path, "domain": domain, "expires": expires.map(HARDate.text),
            "httpOnly": isHTTPOnly, "secure": isSecure,
        ]).encode(to: encoder)
    }
}

extension HARTimings: Encodable {
    /// Encodes the timings in HAR's form, with -1 for phases that did not occur.
    package func encode(to encoder: any Encoder) throws {
        try HARObject([
            "blocked": blocked ?? -1, "dns": dns ?? -1, "connect": connect ?? -1, "ssl": ssl ?? -1, "send": send,
            "wait": wait, "receive": receive,
        ]).encode(to: encoder)
    }
}

/// An object with members by name; nil members are omitted.
private struct HARObject: Encodable {
    private struct MemberName: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    private let members: KeyValuePairs<String, (any Encodable)?>

    init(_ members: KeyValuePairs<String, (any Encodable)?>) { self.members = members }

    func encode(to encoder: any Encoder) throws {
        var object = encoder.container(keyedBy: MemberName.self)
        for case (let name, let value?) in members { try object.encode(value, forKey: MemberName(stringValue: name)) }
    }
}

/// The date format of RFC 3339, in UTC, with microseconds, which preserve the order of events within a millisecond.
enum HARDate {
    static func text(_ date: Date) -> String {
        let seconds = date.timeIntervalSince1970
        // The format can represent dates until the year 9999.
        guard seconds > 0, seconds < 253_402_300_800 else { return "1970-01-01T00:00:00Z" }
        let microseconds = Int64((seconds * 1e6).rounded(.down))
        let (whole, rest) = microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        var time = time_t(whole)
        var parts = tm()
        guard gmtime_r(&time, &parts) != nil else { return "1970-01-01T00:00:00Z" }
        return String(
            format: "%04d-%02d-%02dT%02d:%02d:%02d.%06lldZ", Int(parts.tm_year) + 1900, Int(parts.tm_mon) + 1,
            Int(parts.tm_mday), Int(parts.tm_hour), Int(parts.tm_min), Int(parts.tm_sec), rest)
    }
}
