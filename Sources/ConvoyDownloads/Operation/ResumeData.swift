import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// What a download that was stopped has left: enough to go on with it later, in this process or another one. The counterpart
/// of the resume data of `URLSession`.
///
/// It is JSON, of a few hundred bytes:
///
///     {"digest":"…","file":"…","journal":"convoy-journal 2 …","url":"https://…","version":1}
///
/// `file` is the name of the partial file in the directory of a session's downloads, and never a path. `journal` is what the
/// ``DownloadOperation``'s own journal says: what the bytes are bytes of, and which of them are there. `url` is that of the
/// request, with its query: a reader of the one may read the other. `digest` is the SHA-256 digest of the other
/// members, by which damage is found.
///
/// It holds no header fields, and no secrets but those of the URL.
///
/// Resume data may come from anybody. It decides nothing about bytes: those are believed only as far as the journal beside
/// the partial file goes, and only if the server still has the same file. Where the partial file is gone, the download
/// starts over.
public struct ResumeData: Sendable, Hashable {
    /// The version of the format that this library writes.
    public static let currentVersion = 1
    /// Longer data is not read, in bytes.
    public static let maximumSize = 64 << 10

    /// The URL of the request.
    public let url: URL
    /// The name of the partial file, without its suffix: 32 hexadecimal digits.
    package let name: String
    /// How many bytes the download had.
    public let byteCount: Int64
    /// How many bytes the whole file had.
    public let expectedByteCount: Int64
    /// The journal's entry as text.
    private let journal: String

    /// The resume data that some bytes are, as ``data`` makes them.
    ///
    /// - Throws: ``ResumeDataError``.
    public init(_ data: Data) throws(ResumeDataError) {
        guard data.count <= Self.maximumSize else { throw .malformed("It is longer than \(Self.maximumSize) bytes.") }
        do {
            self = try JSONDecoder().decode(ResumeData.self, from: data)
        } catch let error as ResumeDataError {
            throw error
        } catch {
            throw .malformed("It is no JSON of resume data, or only a part of it.")
        }
    }

    /// The resume data as JSON.
    public var data: Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Texts and a number, which can always be encoded.
        return (try? encoder.encode(self)) ?? Data()
    }

    /// - Returns: nil where that is nothing to go on from.
    package init?(url: URL, name: String, _ representation: Representation, _ bytes: ByteRanges) {
        // Which file has them, its journal says.
        let entry = JournalEntry(number: 1, mark: "", representation: representation, bytes: bytes)
        guard let text = entry.text, !bytes.isEmpty, ResourcePlace(url) == representation.place,
            let data = try? Members(version: Self.currentVersion, url: url.absoluteString, file: name, journal: text)
        else { return nil }
        guard let made = try? Self(data), made.data.count <= Self.maximumSize else { return nil }
        self = made
    }

    /// That of a partial file in a directory of a session's downloads, as its journal says; nil if it is of another resource,
    /// or nothing that could be continued. Blocks.
    ///
    /// - Parameter name: that of the file, without its suffix.
    package init?(url: URL, ofPartialFile name: String, in directory: URL) {
        let paths = PartialPaths(destination: PathText.join(directory.path, name))
        guard let (entry, length) = DownloadFile(paths).entry(ofFileAt: paths.partial) else { return nil }
        var bytes = entry.bytes
        bytes.remove(length..<Int64.max)
        self.init(url: url.absoluteURL, name: name, entry.representation, bytes)
    }

    private init(_ members: Members) throws(ResumeDataError) {
        guard members.file.utf8.count == 32, members.file.utf8.allSatisfy(Self.isHexadecimal) else {
            throw .malformed("It names no partial file.")
        }
        guard let url = URL(string: members.url), url.absoluteString == members.url,
            let address = HTTPAddress(members.url), !address.hasUserInfo
        else { throw .malformed("Its URL is none of HTTP.") }
        guard let entry = JournalEntry(text: Array(members.journal.utf8)[...]) else {
            throw .malformed("Its journal is none.")
        }
        guard ResourcePlace(url) == entry.representation.place else { throw .otherURL }
        (self.url, name, journal) = (url, members.file, members.journal)
        (byteCount, expectedByteCount) = (entry.bytes.count, entry.representation.total)
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
        default: false
        }
    }

    /// Whether a URL is that of the same resource: apart from the signature in its query, which is a new one each time.
    public func isOf(_ other: URL) -> Bool { ResourcePlace(url) == ResourcePlace(other.absoluteURL) }
}

extension ResumeData: Codable {
    /// As it is written.
    fileprivate struct Members: Codable {
        var version: Int
        var url: String
        var file: String
        var journal: String
        var digest: String

        init(version: Int, url: String, file: String, journal: [UInt8]) throws(ResumeDataError) {
            try self.init(version, url, file, String(decoding: journal, as: UTF8.self))
        }

        init(_ version: Int, _ url: String, _ file: String, _ journal: String) throws(ResumeDataError) {
            (self.version, self.url, self.file, self.journal) = (version, url, file, journal)
            guard let digest = Self.digest(version, url, file, journal) else {
                throw .malformed("Its digest cannot be computed.")
            }
            self.digest = digest
        }

        /// The digest of the members in the order of their names, each with its length before it.
        static func digest(_ version: Int, _ url: String, _ file: String, _ journal: String) -> String? {
            let digest = MessageDigest()
            for member in [file, journal, url, "\(version)"] { digest.update(Data("\(member.utf8.count):\(member)".utf8)) }
            return digest.value()?.hexadecimalString
        }
    }

    private struct Version: Decodable { var version: Int }

    /// - Throws: ``ResumeDataError``, or the decoder's error.
    public init(from decoder: any Decoder) throws {
        let version = try Version(from: decoder).version
        guard version == Self.currentVersion else { throw ResumeDataError.unsupportedVersion(version) }
        let members = try Members(from: decoder)
        let digest = Members.digest(members.version, members.url, members.file, members.journal)
        guard let digest, digest.utf8.elementsEqual(members.digest.utf8) else {
            throw ResumeDataError.malformed("It was changed or damaged.")
        }
        try self.init(members)
    }

    /// Encodes the members that are listed above.
    public func encode(to encoder: any Encoder) throws {
        try Members(Self.currentVersion, url.absoluteString, name, journal).encode(to: encoder)
    }
}

extension ResumeData: CustomStringConvertible {
    /// The URL without secrets, and how many bytes there are.
    public var description: String {
        "\(Redaction.url(url.absoluteString)): \(byteCount) of \(expectedByteCount) bytes"
    }
}

extension ResumeData: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Why resume data cannot be used.
public enum ResumeDataError: Error, Equatable, Sendable {
    /// It is none, or was changed: why, as a sentence.
    case malformed(String)
    /// A later version of this library has written it.
    case unsupportedVersion(Int)
    /// It is about another URL than the request, or than its own journal.
    case otherURL
}

extension ResumeDataError: LocalizedError, CustomStringConvertible {
    /// What is wrong, in a sentence.
    public var errorDescription: String? { description }

    /// What is wrong, in a sentence.
    public var description: String {
        switch self {
        case .malformed(let reason): "The resume data cannot be read. \(reason)"
        case .unsupportedVersion(let version):
            "The resume data has version \(version), and this library knows \(ResumeData.currentVersion)."
        case .otherURL: "The resume data is that of another URL."
        }
    }
}

extension DownloadOperation {
    /// What the operation, which has finished, has left beside a destination whose name is made for that; nil where there
    /// is nothing to go on from: no bytes, none that anything could be added to, or the whole file.
    package final var resumeData: ResumeData? {
        guard isFinished, outcome == nil, let url = request.url?.absoluteURL, let destination,
            let download = download.withLock({ $0 })
        else { return nil }
        let (representation, done) = download.state.withLock { ($0.plan.representation, $0.plan.done) }
        guard let representation else { return nil }
        return ResumeData(url: url, name: PathText.name(of: destination.path), representation, done)
    }
}
