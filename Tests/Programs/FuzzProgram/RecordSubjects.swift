#if DEBUG || FUZZ
import ConvoySupport
import Foundation
import FoundationNetworking

@testable import ConvoyCache
@testable import ConvoyCookies
@testable import ConvoyDownloads
@testable import ConvoyImage
@testable import ConvoyObjectStorage
@testable import ConvoyOperations
@testable import ConvoyReachability
@testable import ConvoySecurity
@testable import ConvoySharedQueue

extension FuzzSubject {
    /// The parsers of records written by this library, which may be truncated, damaged or forged.
    static let records: [FuzzSubject] = [
        FuzzSubject("journal", seeds: [journal]) { bytes in
            guard let entry = JournalEntry(text: bytes[...]) else { return }
            try expect(
                entry.bytes.ranges.allSatisfy { $0.lowerBound >= 0 && $0.lowerBound < $0.upperBound }, "ranges that are none"
            )
            _ = JournalLayout.latest(in: bytes, of: entry.mark)
        },
        FuzzSubject(
            "resume-data",
            seeds: [
                "{\"version\":1,\"url\":\"https://example.com/\",\"file\":\"0123456789abcdef0123456789abcdef\",\"journal\":\"x\",\"digest\":\"00\"}"
            ]
        ) { bytes in
            let resume = try ResumeData(Data(bytes))
            try expect(resume.byteCount >= 0 && resume.byteCount <= resume.expectedByteCount, "more bytes than there are")
            try expect(try ResumeData(resume.data) == resume, "resume data are not read as they are written")
        },
        FuzzSubject("cache-record", bytes: [cacheRecord]) { bytes in
            let record = bytes.withUnsafeBytes { RecordCoding.decode($0, id: 1, address: "a", partition: "", used: 0) }
            guard let record else { return }
            let written = RecordCoding.encode(record)
            let again = written.withUnsafeBytes { RecordCoding.decode($0, id: 1, address: "a", partition: "", used: 0) }
            try expect(again.map(RecordCoding.encode) == written, "a record is not read as it is written")
            // No system clock exceeds these times.
            _ = record.freshness(at: CacheTime(wall: .max / 8, up: .max / 8), boot: 0)
        },
        FuzzSubject("cookie-line", seeds: [".example.com\tTRUE\t/\tFALSE\t99\ta\tb", "#HttpOnly_h\tFALSE\t/\tTRUE\t0\ta\t"])
        { bytes in
            guard case .cookie(let cookie) = NetscapeCookies.parse(bytes[...], at: 0),
                let line = NetscapeCookies.line(cookie)
            else { return }
            guard case .cookie(let again) = NetscapeCookies.parse(line[...].filter { $0 != 0x0A }[...], at: 0) else {
                throw FuzzFinding(description: "a cookie's line is no cookie: \(text(line))")
            }
            try expect(
                again.nameBytes == cookie.nameBytes && again.domain == cookie.domain, "a cookie is not read as it is written"
            )
        },
        FuzzSubject("work-payload", seeds: workPayloads) { bytes in
            let payload = try WorkPayload(text(bytes))
            if payload.folder != nil, let path = payload.path {
                let parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
                try expect(!parts.contains { $0.elementsEqual("..".utf8) }, "a path that leads away: \(path)")
            }
            func members(_ payload: WorkPayload) throws -> NSDictionary? {
                try JSONSerialization.jsonObject(with: Data(payload.text().utf8)) as? NSDictionary
            }
            let again = try WorkPayload(try payload.text())
            try expect(try members(again) == members(payload), "a payload is not read as it is written")
            _ = try payload.request.request(with: [], manager)
        },
        FuzzSubject(
            "multipart-upload",
            seeds: [
                #"{"key":"a","uploadID":"u","source":{"path":"/a","device":1,"inode":2,"size":12582913,"modified":3},"#
                    + #""partSize":5242880,"hasChecksums":true,"parts":[{"number":3,"entityTag":"x","sha256":"AA=="}]}"#
            ]
        ) { bytes in
            let upload = try JSONDecoder().decode(MultipartUpload.self, from: Data(bytes))
            try expect(0...upload.source.size ~= upload.sentSize, "\(upload.sentSize) bytes of \(upload.source.size)")
            try expect(upload.partCount == upload.missing.count + upload.parts.count, "parts that are not counted")
        },
        FuzzSubject(
            "netlink",
            // The bytes contain RTM_NEWROUTE with RTA_OIF and RTA_PREFSRC, and RTM_NEWLINK with IFLA_IFNAME.
            bytes: [
                NetlinkMessage.request(
                    type: 24, sequence: 1, structure: [UInt8](repeating: 1, count: 12),
                    attributes: [(4, [1, 0, 0, 0]), (7, [192, 0, 2, 1])]),
                NetlinkMessage.request(
                    type: 16, sequence: 2, structure: [UInt8](repeating: 0xFF, count: 16),
                    attributes: [(3, Array("eth0".utf8))]),
            ]
        ) { bytes in
            for message in NetlinkMessage.all(in: bytes[...]) {
                _ = NetworkPath(message)
                _ = NetworkLink(message)
            }
            _ = HostAddress(text(bytes))
        },
        FuzzSubject("image", bytes: images) { bytes in
            #if Images
            let limits = ImageLimits(maximumPixelCount: 1 << 18, maximumDimension: 2048)
            let layout = try bytes.withUnsafeBytes { try ImageLayout(ImageBytes($0), limits: limits) }
            try expect(
                layout.width > 0 && layout.height > 0 && layout.width * layout.height <= 1 << 18,
                "a layout beyond the limits")
            for case .range(let range) in layout.pieces {
                try expect(range.lowerBound >= 0 && range.upperBound <= bytes.count, "a piece beyond the body")
            }
            #endif
        },
    ]

    private static let manager = HTTPRequestOperationManager()

    private static let workPayloads: [String] = {
        guard let url = URL(string: "https://example.com/a?b=c") else { return [] }
        let file = URL(fileURLWithPath: "/tmp/file")
        var get = SharedRequest(URLRequest(url: url)), post = SharedRequest(OutboxRequest(URLRequest(url: url), body: nil))
        (get.responseBody, post.responseBody) = (.folder("a", path: "b/c"), .entry())
        let requests = [get, post, SharedRequest(DownloadRequest(url, destination: file))]
        return requests.compactMap { try? $0.item(.standard).payload }
    }()

    private static let journal: String = {
        var representation = Representation(
            place: ResourcePlace(digest: "00"), shownURL: "https://example.com/",
            validators: .init(entityTag: "\"a\"", lastModified: nil),
            type: "text/plain", total: 100)
        representation.isCombined = false
        let entry = JournalEntry(
            number: 5, mark: "0123", representation: representation, bytes: ByteRanges([0..<10, 20..<30]))
        return text(entry.text ?? [])
    }()

    private static let cacheRecord = RecordCoding.encode(
        CacheRecord(
            id: 1, address: "a", partition: "",
            vary: VaryKey(fields: [.init(name: "accept", value: "x"), .init(name: "b", value: nil)]),
            head: CachedHead(statusCode: 200, fields: [("ETag", "\"x\""), ("Cache-Control", "max-age=5")]),
            requested: CacheTime(wall: 1, up: 1), received: CacheTime(wall: 2, up: 2), boot: 3, length: 4,
            userInfo: ["k": "v"]))

    /// The smallest images of each format with a valid header.
    private static let images: [[UInt8]] = [
        [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13] + Array("IHDR".utf8) + [
            0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0,
        ],
        [0xFF, 0xD8, 0xFF, 0xE0, 0, 16] + Array("JFIF".utf8) + [
            0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0xFF, 0xC0, 0, 11, 8, 0, 1, 0, 1, 1, 1, 0x11, 0, 0xFF, 0xD9,
        ],
        Array("GIF89a".utf8) + [
            1, 0, 1, 0, 0x80, 0, 0, 0, 0, 0, 255, 255, 255, 0x2C, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0, 0x3B,
        ],
        Array("BM".utf8) + [58, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 24, 0]
            + [UInt8](repeating: 0, count: 28),
        [0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0, 24, 0, 48, 0, 0, 0, 22, 0, 0, 0] + [UInt8](repeating: 0, count: 48),
        Array("II*\0".utf8) + [
            8, 0, 0, 0, 2, 0, 0, 1, 3, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 3, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
        ],
        Array("RIFF".utf8) + [26, 0, 0, 0] + Array("WEBPVP8L".utf8) + [
            13, 0, 0, 0, 0x2F, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
        [0, 0, 0, 20] + Array("ftypavif".utf8) + [0, 0, 0, 0] + Array("avif".utf8),
        Array("#define a_width 8\n#define a_height 1\nstatic char a_bits[] = { 0x01 };\n".utf8),
    ]
}
#endif
