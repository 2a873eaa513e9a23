import COpenSSL
import ConvoySecurity
import ConvoySupport
import Foundation

/// AWS Signature Version 4 for S3: a pure value, computed from the parts of a request, a date and credentials.
///
/// The path of an S3 request is signed as it is sent: percent-encoded once, and not normalized.
package struct SignatureV4: Sendable {
    /// The part of the signature that covers the body.
    package enum Payload: Sendable, Hashable {
        /// Unsigned: `UNSIGNED-PAYLOAD`.
        case unsigned
        /// The SHA-256 digest of the body, in hexadecimal digits.
        case digest(String)

        /// The SHA-256 digest of an empty body.
        package static let empty = Payload.digest("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")

        package var text: String {
            switch self {
            case .unsigned: "UNSIGNED-PAYLOAD"
            case .digest(let text): text
            }
        }
    }

    package var credentials: ObjectStorageCredentials
    package var region: String
    package var service = "s3"
    /// The time of the signature.
    package var date: Date

    package init(credentials: ObjectStorageCredentials, region: String, date: Date) {
        self.credentials = credentials
        self.region = region
        self.date = date
    }

    // MARK: The three steps

    /// Returns the canonical form of a request, which is signed.
    ///
    /// - Parameters:
    ///   - path: The percent-encoded path; an empty one is `/`.
    ///   - query: The query as sent, without its question mark. Names may be repeated.
    ///   - headers: All signed fields, in any order and case. Fields with the same name are joined
    ///     in order.
    package static func canonicalRequest(
        method: String, path: String, query: String, headers: [(name: String, value: String)], payload: Payload
    ) -> String {
        let fields = canonicalFields(headers)
        return [
            method, path.isEmpty ? "/" : path, canonicalQuery(query),
            fields.map { "\($0.name):\($0.value)\n" }.joined(), signedNames(fields), payload.text,
        ].joined(separator: "\n")
    }

    /// Returns the string whose HMAC is the signature.
    package func stringToSign(_ canonicalRequest: String) throws(ObjectStorageError) -> String {
        let digest = try Self.sha256(Data(canonicalRequest.utf8)).hexadecimalString
        return [Self.algorithm, timestamp, scope, digest].joined(separator: "\n")
    }

    /// Returns the signature of a string, in hexadecimal digits.
    package func signature(of stringToSign: String) throws(ObjectStorageError) -> String {
        var key = Data("AWS4\(credentials.secretAccessKey)".utf8)
        for part in [day, region, service, "aws4_request"] { key = try Self.hmac(Data(part.utf8), key: key) }
        return try Self.hmac(Data(stringToSign.utf8), key: key).hexadecimalString
    }

    // MARK: Uses

    /// Returns the value of `Authorization`.
    ///
    /// - Parameter headers: All signed fields, including `host` and `x-amz-date`.
    package func authorization(
        method: String, path: String, query: String, headers: [(name: String, value: String)], payload: Payload
    ) throws(ObjectStorageError) -> String {
        let request = Self.canonicalRequest(
            method: method, path: path, query: query, headers: headers, payload: payload)
        let signature = try signature(of: try stringToSign(request))
        let names = Self.signedNames(Self.canonicalFields(headers))
        return "\(Self.algorithm) Credential=\(credentials.accessKeyID)/\(scope), SignedHeaders=\(names), "
            + "Signature=\(signature)"
    }

    /// Returns a query with the signature, for a URL that needs no other credentials.
    ///
    /// - Parameters:
    ///   - query: The query of the URL without a signature.
    ///   - headers: `host`, and the fields that the request must have.
    ///   - seconds: The validity of the URL in seconds, from `date`.
    package func presignedQuery(
        method: String, path: String, query: String, headers: [(name: String, value: String)], seconds: Int
    ) throws(ObjectStorageError) -> String {
        var items = [
            ("X-Amz-Algorithm", Self.algorithm), ("X-Amz-Credential", "\(credentials.accessKeyID)/\(scope)"),
            ("X-Amz-Date", timestamp), ("X-Amz-Expires", String(seconds)),
            ("X-Amz-SignedHeaders", Self.signedNames(Self.canonicalFields(headers))),
        ]
        if let token = credentials.sessionToken { items.append(("X-Amz-Security-Token", token)) }
        let added = items.map { "\($0.0)=\(Self.encoded($0.1))" }.joined(separator: "&")
        let whole = query.isEmpty ? added : "\(query)&\(added)"
        let request = Self.canonicalRequest(
            method: method, path: path, query: whole, headers: headers, payload: .unsigned)
        return try "\(whole)&X-Amz-Signature=\(signature(of: stringToSign(request)))"
    }

    // MARK: Parts

    package static let algorithm = "AWS4-HMAC-SHA256"

    /// The date in the format of `X-Amz-Date`: `20130524T000000Z`.
    package var timestamp: String { Self.timestamp(date) }

    private var day: String { String(timestamp.prefix(8)) }
    private var scope: String { "\(day)/\(region)/\(service)/aws4_request" }

    private static func timestamp(_ date: Date) -> String {
        var seconds = time_t(min(max(date.timeIntervalSince1970, 0), 253_402_300_799))
        var fields = tm()
        gmtime_r(&seconds, &fields)
        func digits(_ number: Int32, _ count: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, count - text.count)) + text
        }
        return digits(fields.tm_year + 1900, 4) + digits(fields.tm_mon + 1, 2) + digits(fields.tm_mday, 2) + "T"
            + digits(fields.tm_hour, 2) + digits(fields.tm_min, 2) + digits(fields.tm_sec, 2) + "Z"
    }

    /// Percent-encodes all bytes except unreserved characters (RFC 3986, section 2.3), with uppercase digits.
    ///
    /// - Parameter keepsSlashes: Whether to keep `/`, as in a path.
    package static func encoded(_ text: String, keepsSlashes: Bool = false) -> String {
        encoded(text.utf8, keepsSlashes: keepsSlashes)
    }

    private static func encoded(_ bytes: some Collection<UInt8>, keepsSlashes: Bool) -> String {
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        for byte in bytes {
            if isUnreserved(byte) || keepsSlashes && byte == UInt8(ascii: "/") {
                output.append(byte)
            } else {
                output += [
                    UInt8(ascii: "%"), ASCII.hexadecimalDigit(byte >> 4, uppercase: true),
                    ASCII.hexadecimalDigit(byte & 15, uppercase: true),
                ]
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }

    /// Returns the items sorted by encoded name, then by value.
    private static func canonicalQuery(_ query: String) -> String {
        let items = query.utf8.split(separator: UInt8(ascii: "&")).map { item -> (name: String, value: String) in
            let parts = item.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            func part(_ index: Int) -> String {
                guard index < parts.count else { return "" }
                return encoded(PercentEncoding.decoded(Array(parts[index])[...]), keepsSlashes: false)
            }
            return (part(0), part(1))
        }
        func precedes(_ one: String, _ other: String) -> Bool { one.utf8.lexicographicallyPrecedes(other.utf8) }
        return items.sorted { precedes($0.name, $1.name) || $0.name == $1.name && precedes($0.value, $1.value) }
            .map { "\($0.name)=\($0.value)" }.joined(separator: "&")
    }

    /// Returns the fields sorted by lowercase name, with whitespace collapsed.
    private static func canonicalFields(_ headers: [(name: String, value: String)]) -> [(name: String, value: String)] {
        var values: [String: [String]] = [:]
        for (name, value) in headers {
            let words = value.split { $0 == " " || $0 == "\t" || $0.isNewline }
            values[name.lowercased(), default: []].append(words.joined(separator: " "))
        }
        return values.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
            .map { ($0.key, $0.value.joined(separator: ",")) }
    }

    private static func signedNames(_ fields: [(name: String, value: String)]) -> String {
        fields.map(\.name).joined(separator: ";")
    }

    // MARK: Digests

    private static func sha256(_ data: Data) throws(ObjectStorageError) -> Data {
        guard let digest = MessageDigest.sha256(data) else { throw .noDigest }
        return digest
    }

    private static func hmac(_ data: Data, key: Data) throws(ObjectStorageError) -> Data {
        var code = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var length: UInt32 = 0
        let isDone = data.withUnsafeBytes { bytes in
            key.withUnsafeBytes { key in
                HMAC(
                    EVP_sha256(), key.baseAddress, Int32(key.count),
                    bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count, &code, &length) != nil
            }
        }
        guard isDone else { throw .noDigest }
        return Data(code[..<Int(length)])
    }
}
