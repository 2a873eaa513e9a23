import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import Foundation

/// A journal entry for a partial file. The entry records the representation of the bytes, and which of them are on the
/// disk.
///
/// The text consists of a header line and a line of JSON:
///
/// ```
/// convoy-journal 2 42 183 9f86d081884c7d65
/// {"url":"https://…","place":"…","etag":"…","modified":"…","type":"…","length":1048576,"file":"…","bytes":[0,524288]}
/// ```
///
/// The header contains the version, a number that increases with each entry, the length of the JSON text in bytes, and
/// a prefix of its SHA-256 digest, which detects torn entries. Journals of other versions claim no bytes.
package struct JournalEntry: Sendable, Equatable {
    package var number: UInt64
    /// The identity of the file that contains the bytes; see `FileIdentity`. A different file with the same name does
    /// not match.
    package var mark: String
    package var representation: Representation
    /// The synchronized bytes, which survive a power failure.
    package var bytes: ByteRanges

    package init(number: UInt64, mark: String, representation: Representation, bytes: ByteRanges) {
        self.number = number
        self.mark = mark
        self.representation = representation
        self.bytes = bytes
    }

    // MARK: Text

    private static let magic = "convoy-journal 2"

    private struct Fields: Codable {
        var url: String
        var place: String
        var etag: String?
        var modified: String?
        var type: String?
        var length: Int64
        var file: String
        /// Whether the bytes are valid only if a checksum confirms them.
        var combined: Bool?
        var bytes: [Int64]
    }

    /// The entry as text; nil if it cannot be encoded.
    package var text: [UInt8]? {
        let fields = Fields(
            url: representation.shownURL, place: representation.place.digest,
            etag: representation.validators.entityTag, modified: representation.validators.lastModified,
            type: representation.type, length: representation.total, file: mark,
            combined: representation.isCombined ? true : nil, bytes: Self.numbers(bytes))
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(fields), let digest = Self.digest(of: json) else { return nil }
        return Array("\(Self.magic) \(number) \(json.count) \(digest)\n".utf8) + Array(json) + [UInt8(ascii: "\n")]
    }

    /// Parses the entry at the start of a slot; nil if the entry is missing or torn.
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
            let fields = try? JSONDecoder().decode(Fields.self, from: json), fields.length >= 0,
            let bytes = Self.ranges(fields.bytes, upTo: fields.length)
        else { return nil }
        let validators = RepresentationFacts.Validators(entityTag: fields.etag, lastModified: fields.modified)
        // Validators that cannot be sent identify nothing, so the representation of the bytes is unknown.
        let isUsable = !validators.isEmpty && (fields.etag == nil) == (validators.entityTag == nil)
        var representation = Representation(
            place: ResourcePlace(digest: fields.place), shownURL: fields.url, validators: validators,
            type: fields.type, total: fields.length)
        representation.isCombined = fields.combined ?? false
        self.init(
            number: number, mark: fields.file, representation: representation, bytes: isUsable ? bytes : ByteRanges())
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

/// The layout of a journal file: two slots, written in turn, so that the previous entry stays intact while the next one
/// is written.
package enum JournalLayout {
    /// The size of a slot, in bytes.
    package static let placeSize = 32 << 10
    package static let placeCount = 2

    /// Returns the offset of the slot for an entry.
    package static func offset(of number: UInt64) -> Int64 { Int64(number % UInt64(placeCount)) * Int64(placeSize) }

    /// Returns the latest complete entry for a file in the contents of a journal. The other slot can contain an entry
    /// for a different file, if a replacement has become the partial file or has failed to become it.
    package static func latest(in bytes: [UInt8], of mark: String) -> JournalEntry? {
        (0..<placeCount).map { $0 * placeSize }.filter { $0 < bytes.count }
            .compactMap { JournalEntry(text: bytes[$0..<min($0 + placeSize, bytes.count)]) }
            .filter { $0.mark.utf8.elementsEqual(mark.utf8) }
            .max { $0.number < $1.number }
    }
}

/// The names of the files of an incomplete download: in the same directory as the final file, with the suffixes
/// `.convoypart` and `.convoyjournal`.
package struct PartialPaths: Sendable, Equatable {
    private let stem: String
    package let directory: String
    package var partial: String { stem + Self.partialSuffix }
    package var journal: String { stem + Self.journalSuffix }
    /// The path of the file that will replace the partial file, which is kept in the meantime.
    package var replacement: String { stem + Self.replacementSuffix }

    package static let partialSuffix = ".convoypart"
    package static let journalSuffix = ".convoyjournal"
    package static let replacementSuffix = ".convoynew"
    /// The suffixes of these files. No name created from untrusted text ends with one of them; see `FileName`.
    package static let suffixes = [partialSuffix, journalSuffix, replacementSuffix]

    /// Derives the paths of the partial files from the path of the final file.
    package init(destination path: String) {
        let name = PathText.name(of: path)
        let short = Self.shortened(name)
        directory = PathText.directory(of: path)
        stem = name.utf8.count == short.utf8.count ? path : PathText.join(directory, short)
    }

    /// Creates the paths for a file, or for the target of a symbolic link. Blocks.
    package init(following path: String) { self.init(destination: (try? FileRenaming.target(of: path)) ?? path) }

    /// Creates the paths in a directory for a file that the server will name. They are derived from the URL, so that a
    /// later download of the same URL finds the files.
    package init(directory: String, url: URL) {
        self.init(directory: directory, name: "convoy-\(ResourcePlace(url).digest.prefix(24))")
    }

    private init(directory: String, name: String) {
        self.directory = directory
        stem = PathText.join(directory, Self.shortened(name))
    }

    /// Returns a name short enough for the suffixes. Most file systems allow 255 bytes.
    private static func shortened(_ name: String) -> String {
        let limit = 255 - journalSuffix.utf8.count
        guard name.utf8.count > limit else { return name }
        let digest = MessageDigest()
        digest.update(Data(name.utf8))
        let end = "-" + (digest.value()?.hexadecimalString.prefix(16) ?? "")
        var stem = name
        while stem.utf8.count + end.utf8.count > limit { stem.removeLast() }
        return stem + end
    }
}
