import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import Foundation

/// What a journal says of a partial file: what its bytes belong to, and which of them are on the disk.
///
/// As text, one line of header and one of JSON:
///
///     convoy-journal 2 42 183 9f86d081884c7d65
///     {"url":"https://…","place":"…","etag":"…","modified":"…","type":"…","length":1048576,"file":"…","bytes":[0,524288]}
///
/// The header has the version, a number that grows with each entry, the length of the JSON text in bytes, and the
/// beginning of its SHA-256 digest, by which a torn entry is recognized. Journals of other versions claim nothing.
package struct JournalEntry: Sendable, Equatable {
    package var number: UInt64
    /// Which file has the bytes; see `FileIdentity`. One that merely lies under its name is another.
    package var mark: String
    package var representation: Representation
    /// The bytes that a power cut would leave as they are.
    package var bytes: ByteRanges

    package init(number: UInt64, mark: String, representation: Representation, bytes: ByteRanges) {
        (self.number, self.mark, self.representation, self.bytes) = (number, mark, representation, bytes)
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
        /// Whether they count only with a checksum.
        var combined: Bool?
        var bytes: [Int64]
    }

    /// The entry as text; nil if it cannot be written.
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
            let fields = try? JSONDecoder().decode(Fields.self, from: json), fields.length >= 0,
            let bytes = Self.ranges(fields.bytes, upTo: fields.length)
        else { return nil }
        let validators = KnownRepresentation.Validators(entityTag: fields.etag, lastModified: fields.modified)
        // What cannot be sent identifies nothing, and the bytes are not known to be those of any representation.
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

/// The places for entries in a journal's file: two, by turns, so that the entry before the last one is whole while the last
/// one is written.
package enum JournalLayout {
    /// Bytes for each place.
    package static let placeSize = 32 << 10
    package static let placeCount = 2

    /// Where an entry is written.
    package static func offset(of number: UInt64) -> Int64 { Int64(number % UInt64(placeCount)) * Int64(placeSize) }

    /// The latest whole entry for a file in the bytes of a journal's file. After a replacement has become the partial file,
    /// or has failed to, there is an entry for another one, too.
    package static func latest(in bytes: [UInt8], of mark: String) -> JournalEntry? {
        (0..<placeCount).map { $0 * placeSize }.filter { $0 < bytes.count }
            .compactMap { JournalEntry(text: bytes[$0..<min($0 + placeSize, bytes.count)]) }
            .filter { $0.mark.utf8.elementsEqual(mark.utf8) }
            .max { $0.number < $1.number }
    }
}

/// The names of a download's files while it is not whole: those of the file with `.convoypart` and `.convoyjournal`
/// behind them, in the same directory.
package struct PartialPaths: Sendable, Equatable {
    private let stem: String
    package let directory: String
    package var partial: String { stem + Self.partialSuffix }
    package var journal: String { stem + Self.journalSuffix }
    /// That of what is to replace a partial file, which is kept meanwhile.
    package var replacement: String { stem + Self.replacementSuffix }

    package static let partialSuffix = ".convoypart"
    package static let journalSuffix = ".convoyjournal"
    package static let replacementSuffix = ".convoynew"
    /// No name out of text from outside ends in one of these; see `FileName`.
    package static let suffixes = [partialSuffix, journalSuffix, replacementSuffix]

    /// Those of a file.
    package init(destination path: String) {
        let name = PathText.name(of: path)
        let short = Self.shortened(name)
        directory = PathText.directory(of: path)
        stem = name.utf8.count == short.utf8.count ? path : PathText.join(directory, short)
    }

    /// Those of a file, or of the one that a link leads to. Blocks.
    package init(following path: String) { self.init(destination: (try? FileRenaming.target(of: path)) ?? path) }

    /// Those of a file whose name the server will say, in a directory: named after its URL, so that a later download of
    /// the same finds them.
    package init(directory: String, url: URL) {
        self.init(directory: directory, name: "convoy-\(ResourcePlace(url).digest.prefix(24))")
    }

    private init(directory: String, name: String) {
        (self.directory, stem) = (directory, PathText.join(directory, Self.shortened(name)))
    }

    /// A name to which the suffixes can be added. Most file systems allow 255 bytes.
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
