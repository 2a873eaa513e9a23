import ConvoySupport
import Foundation

/// A request to a `BehavingResource`, and the data for its response.
struct BehaviourExchange: Sendable {
    /// The number of earlier requests.
    let number: Int
    /// Whether the request was sent to "PATH/elsewhere", the target of redirects.
    let isElsewhere: Bool
    /// The current representation.
    let version: Int
    /// The bytes of the resource.
    let entity: Data
    /// The offset of the first requested byte; nil if the request has no range.
    let asked: Int?
    /// The offset of the last requested byte, if specified.
    let askedLast: Int?
    /// The last component of the resource's path.
    let name: String
    /// The validators of the response; a behaviour may use different ones for parts.
    var validators: TestServer.Headers = [:]
    /// The random numbers `chance` and `point` from 0 to 1, determined by the seed and `number`.
    let chance: Double
    let point: Double
    private let seed: UInt64

    init(
        number: Int, isElsewhere: Bool, version: Int, entity: Data, asked: Int?, askedLast: Int? = nil, name: String,
        seed: UInt64
    ) {
        self.number = number
        self.isElsewhere = isElsewhere
        self.version = version
        self.entity = entity
        self.asked = asked
        self.askedLast = askedLast
        self.name = name
        self.seed = seed
        var generator = SeededGenerator(seed, UInt64(truncatingIfNeeded: number), 0x5EED)
        chance = Double.random(in: 0..<1, using: &generator)
        point = Double.random(in: 0..<1, using: &generator)
    }

    var size: Int { entity.count }
    var offset: Int { min(asked ?? 0, size) }
    var last: Int { min(askedLast ?? .max, size - 1) }
    /// The offset of the last byte in the first half of the requested range.
    var middle: Int { (offset + last) / 2 }
    /// The entity compressed with gzip.
    var encoded: Data { StoredGzip.member(entity) }

    /// Returns the entity tag of a version, without quotes.
    func opaqueTag(_ version: Int? = nil) -> String {
        var generator = SeededGenerator(seed, UInt64(truncatingIfNeeded: version ?? self.version), 0x7A6)
        return String(generator.next(), radix: 16)
    }

    var tag: String { "\"\(opaqueTag())\"" }
    /// An entity tag that is the same for every version.
    var constantTag: String { "\"\(opaqueTag(0))\"" }
    /// A modification date in 2015, one minute later for each version.
    var modified: String { HTTPDate.string(Date(timeIntervalSince1970: 1_445_412_000 + 60 * Double(version))) }
    var constantModified: String { HTTPDate.string(Date(timeIntervalSince1970: 1_445_412_000)) }

    func bytes(_ first: Int, _ last: Int) -> Data { first <= last ? entity[first...last] : Data() }

    // MARK: Answers

    /// Returns a response with the given bytes; by default, a 200 with the entity.
    func whole(_ body: Data? = nil, status: Int = 200) -> TestServer.Response {
        answer(status, [("Accept-Ranges", "bytes")], body ?? entity)
    }

    /// Returns a 206 with the bytes from `first` through `last` and the matching `Content-Range`; by default the
    /// requested range.
    func part(
        _ first: Int? = nil, through last: Int? = nil, of total: String? = nil, body: Data? = nil
    ) -> TestServer.Response {
        let (first, last) = (first ?? offset, last ?? self.last)
        return part("bytes \(first)-\(last)/\(total ?? String(size))", body: body ?? bytes(first, last))
    }

    /// Returns a 206 with the given `Content-Range` and bytes; by default, with the requested bytes.
    func part(_ contentRange: String?, body: Data? = nil) -> TestServer.Response {
        answer(206, contentRange.map { [("Content-Range", $0)] } ?? [], body ?? bytes(offset, last))
    }

    /// Returns a 206 with a range of the encoded bytes, or a 416.
    func encodedPart() -> TestServer.Response {
        let encoded = self.encoded, first = asked ?? 0
        guard first < encoded.count else { return unsatisfiable(encoded.count) }
        return part("bytes \(first)-\(encoded.count - 1)/\(encoded.count)", body: encoded[first...])
            .header("Content-Encoding", "gzip")
    }

    /// Returns a 416, with the complete length if given, and a body that must not be mistaken for the resource's.
    func unsatisfiable(_ length: Int?) -> TestServer.Response {
        let range = length.map { [("Content-Range", "bytes */\($0)")] } ?? []
        return answer(416, range, Data("no such range".utf8))
    }

    /// Returns a response with the given status and the validators, and with a short body if the status allows one.
    func status(_ status: Int) -> TestServer.Response {
        answer(status, [], status == 204 || status == 304 ? nil : Data("status \(status)".utf8))
    }

    /// Returns a 302 to the resource's other URL, as a relative reference that also works behind a reverse proxy.
    func redirect() -> TestServer.Response {
        TestServer.Response.redirect(to: "\(name)/elsewhere")
    }

    private func answer(_ status: Int, _ fields: [(String, String)], _ body: Data?) -> TestServer.Response {
        var response = TestServer.Response(status: status, body: body.map { .data($0) } ?? .none)
        for (name, value) in fields { response.headers.add(name, value) }
        for field in validators.fields { response.headers.add(field.name, field.value) }
        return response
    }
}

/// A gzip encoder (RFC 1952) that uses stored blocks (RFC 1951, section 3.2.4), so it does not need zlib.
enum StoredGzip {
    /// Returns a gzip member with the given bytes.
    static func member(_ data: Data) -> Data {
        var bytes: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255]
        bytes.reserveCapacity(data.count + data.count / 60_000 * 5 + 32)
        var start = 0
        repeat {
            let count = min(data.count - start, 60_000)
            bytes.append(start + count == data.count ? 1 : 0)
            append(UInt32(count) | UInt32(~UInt16(count)) << 16, to: &bytes)
            data.withUnsafeBytes { bytes.append(contentsOf: $0[start..<(start + count)]) }
            start += count
        } while start < data.count
        append(checksum(data), to: &bytes)
        append(UInt32(truncatingIfNeeded: data.count), to: &bytes)
        return Data(bytes)
    }

    private static func append(_ number: UInt32, to bytes: inout [UInt8]) {
        for shift in stride(from: UInt32(0), to: 32, by: 8) { bytes.append(UInt8(truncatingIfNeeded: number >> shift)) }
    }

    /// Returns the CRC-32 of the data (RFC 1952, section 8).
    private static func checksum(_ data: Data) -> UInt32 {
        table.withUnsafeBufferPointer { table in
            data.withUnsafeBytes { bytes in
                var value: UInt32 = 0xFFFF_FFFF
                for byte in bytes { value = table[Int((value ^ UInt32(byte)) & 0xFF)] ^ (value >> 8) }
                return ~value
            }
        }
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1 }
    }
}
