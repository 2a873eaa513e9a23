import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import Foundation

/// What a journal says of a partial file: what its bytes belong to, and which of them are there.
///
/// As text, one line of header and one of JSON:
///
///     convoy-journal 1 42 183 9f86d081884c7d65
///     {"url":"https://…","place":"…","etag":"…","modified":"…","length":1048576,"boot":"…","written":[0,524288],"safe":[0,262144]}
///
/// The header has the version, a number that grows with each entry, the length of the JSON text in bytes, and the
/// beginning of its SHA-256 digest, by which a torn entry is recognized.
package struct JournalEntry: Sendable, Equatable {
    package var number: UInt64
    package var representation: Representation
    /// When the system was started: what was written then and never synchronized is in the file as long as that is the
    /// same.
    package var boot: String
    /// The bytes that have been written.
    package var written: ByteRanges
    /// Those that a power cut would leave as they are.
    package var safe: ByteRanges

    package init(
        number: UInt64, representation: Representation, boot: String, written: ByteRanges, safe: ByteRanges
    ) {
        (self.number, self.representation, self.boot) = (number, representation, boot)
        (self.written, self.safe) = (written, safe)
    }

    /// The bytes that can be relied on.
    package func reliable(in boot: String) -> ByteRanges {
        !boot.isEmpty && boot.utf8.elementsEqual(self.boot.utf8) ? written : safe
    }

    // MARK: Text

    private static let magic = "convoy-journal 1"

    private struct Content: Codable {
        var url: String
        var place: String
        var etag: String?
        var modified: String?
        var length: Int64
        var boot: String
        var written: [Int64]
        var safe: [Int64]
    }

    /// The entry as text; nil if it cannot be written.
    package var text: [UInt8]? {
        let content = Content(
            url: representation.shownURL, place: representation.place.digest,
            etag: representation.validators.entityTag, modified: representation.validators.lastModified,
            length: representation.total, boot: boot, written: Self.numbers(written), safe: Self.numbers(safe))
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(content), let digest = Self.digest(of: json) else { return nil }
        return Array("\(Self.magic) \(number) \(json.count) \(digest)\n".utf8) + json + [UInt8(ascii: "\n")]
    }

    /// The entry that some bytes begin with; nil if they are none, or a torn one.
    package init?(text: ArraySlice<UInt8>) {
        guard let end = text.prefix(200).firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let header = String(decoding: text[..<end], as: UTF8.self)
        guard header.utf8.starts(with: (Self.magic + " ").utf8) else { return nil }
        let parts = header.dropFirst(Self.magic.count + 1).split(separator: " ")
        guard parts.count == 3, let number = UInt64(parts[0]), let length = Int(parts[1]), length > 0,
            length <= text.endIndex - (end + 1)
        else { return nil }
        let json = Data(text[(end + 1)..<(end + 1 + length)])
        guard let digest = Self.digest(of: json), digest.utf8.elementsEqual(parts[2].utf8),
            let content = try? JSONDecoder().decode(Content.self, from: json), content.length >= 0,
            let written = Self.ranges(content.written, upTo: content.length),
            let safe = Self.ranges(content.safe, upTo: content.length)
        else { return nil }
        let validators = KnownRepresentation.Validators(entityTag: content.etag, lastModified: content.modified)
        // What cannot be sent identifies nothing, and the bytes are not known to be those of any representation.
        let isUsable = !validators.isEmpty && (content.etag == nil) == (validators.entityTag == nil)
        self.init(
            number: number,
            representation: Representation(
                place: ResourcePlace(digest: content.place), shownURL: content.url, validators: validators,
                total: content.length),
            boot: content.boot, written: isUsable ? written : ByteRanges(), safe: isUsable ? safe : ByteRanges())
    }

    private static func digest(of json: Data) -> String? {
        let digest = MessageDigest()
        digest.update(json)
        return digest.value().map { String($0.hexadecimalString.prefix(16)) }
    }

    private static func numbers(_ ranges: ByteRanges) -> [Int64] {
        ranges.ranges.flatMap { [$0.lowerBound, $0.upperBound] }
    }

    private static func ranges(_ numbers: [Int64], upTo length: Int64) -> ByteRanges? {
        guard numbers.count.isMultiple(of: 2) else { return nil }
        var ranges = ByteRanges()
        for index in stride(from: 0, to: numbers.count, by: 2) {
            guard numbers[index] >= 0, numbers[index] < numbers[index + 1], numbers[index + 1] <= length else { return nil }
            ranges.insert(numbers[index]..<numbers[index + 1])
        }
        return ranges
    }
}

/// The places for entries in a journal's file. Two are written by turns with what was written to the partial file, so that
/// the last entry but one is whole while the last one is written; and two others, by turns, with what was synchronized, so
/// that a power cut that tears both of the first leaves one that is on the disk.
package enum JournalLayout {
    /// Bytes for each place.
    package static let placeSize = 32 << 10
    package static let placeCount = 4

    /// Where an entry is written.
    ///
    /// - Parameter turn: counts the entries of its kind.
    package static func offset(turn: UInt64, isSafe: Bool) -> Int64 {
        Int64(turn % 2 + (isSafe ? 2 : 0)) * Int64(placeSize)
    }

    /// The latest whole entry in the bytes of a journal's file.
    package static func latest(in bytes: [UInt8]) -> JournalEntry? {
        (0..<placeCount).map { $0 * placeSize }.filter { $0 < bytes.count }
            .compactMap { JournalEntry(text: bytes[$0..<min($0 + placeSize, bytes.count)]) }
            .max { $0.number < $1.number }
    }
}

/// When the system was started, as a name that no two starts share; empty where the system does not tell.
package enum SystemBoot {
    package static let identifier: String = {
        let descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(descriptor, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }()
}
