import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// The state of a stopped download, with which it can be resumed later by this process or another. The counterpart of
/// the resume data of `URLSession`.
///
/// The data is JSON of a few hundred bytes:
///
/// ```
/// {"digest":"…","file":"…","journal":"convoy-journal 2 …","url":"https://…","version":1}
/// ```
///
/// `file` is the name of the partial file in the directory of a session's downloads, never a path. `journal` has the
/// contents of the ``DownloadOperation``'s journal, which identifies the file and the bytes that have been stored.
/// `url` is the URL of the request, with its query. `digest` is the SHA-256 digest of the other members, which detects
/// damage.
///
/// The data contains no header fields, and no secrets except those in the URL.
///
/// Resume data may be untrusted. It makes no claims about bytes: stored bytes are accepted only according to the
/// journal beside the partial file, and only if the file on the server has not changed. If the partial file is missing,
/// the download starts over.
public struct ResumeData: Sendable, Hashable {
    /// The version of the format that this library writes.
    package static let currentVersion = 1
    /// The maximum size of the data, in bytes.
    package static let maximumSize = 64 << 10

    /// The URL of the request.
    public let url: URL
    /// The name of the partial file without its suffix: 32 hexadecimal digits.
    package let name: String
    /// The number of bytes stored.
    public let byteCount: Int64
    /// The length of the complete file, in bytes.
    public let expectedByteCount: Int64
    /// The journal entry as text.
    private let journal: String

    /// Decodes resume data from the form in ``data``.
    ///
    /// - Throws: ``ResumeDataError``.
    public init(_ data: Data) throws(ResumeDataError) {
        guard data.count <= Self.maximumSize else {
            throw .malformed("The data is longer than \(Self.maximumSize) bytes.")
        }
        do {
            self = try JSONDecoder().decode(ResumeData.self, from: data)
        } catch let error as ResumeDataError {
            throw error
        } catch {
            throw .malformed("The JSON is incomplete or invalid.")
        }
    }

    /// The resume data as JSON.
    public var data: Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // The members, which are strings and a number, can always be encoded.
        return (try? encoder.encode(self)) ?? Data()
    }

    /// Creates resume data for a partial file; nil if there is nothing to resume.
    package init?(url: URL, name: String, _ representation: Representation, _ bytes: ByteRanges) {
        // The journal identifies the file with these bytes.
        let entry = JournalEntry(number: 1, mark: "", representation: representation, bytes: bytes)
        guard let text = entry.text, !bytes.isEmpty, ResourcePlace(url) == representation.place,
            let data = try? Members(version: Self.currentVersion, url: url.absoluteString, file: name, journal: text)
        else { return nil }
        guard let made = try? Self(data), made.data.count <= Self.maximumSize else { return nil }
        self = made
    }

    /// Creates resume data from the journal of a partial file in the directory of a session's downloads; nil if it
    /// belongs to a different resource or cannot be resumed. Blocks.
    ///
    /// - Parameter name: The name of the file without its suffix.
    package init?(url: URL, ofPartialFile name: String, in directory: URL) {
        let paths = PartialPaths(destination: PathText.join(directory.path, name))
        guard let (entry, length) = DownloadFile(paths).entry(ofFileAt: paths.partial) else { return nil }
        var bytes = entry.bytes
        bytes.remove(length..<Int64.max)
        self.init(url: url.absoluteURL, name: name, entry.representation, bytes)
    }

    private init(_ members: Members) throws(ResumeDataError) {
        guard members.file.utf8.count == 32, members.file.utf8.allSatisfy(Self.isHexadecimal) else {
            throw .malformed("The name of the partial file is invalid.")
        }
        guard let url = URL(string: members.url), url.absoluteString == members.url,
            let address = HTTPAddress(members.url), !address.hasUserInfo
        else { throw .malformed("The URL is not a valid http or https URL.") }
        guard let entry = JournalEntry(text: Array(members.journal.utf8)[...]) else {
            throw .malformed("The journal entry is invalid.")
        }
        guard ResourcePlace(url) == entry.representation.place else { throw .otherURL }
        self.url = url
        name = members.file
        journal = members.journal
        byteCount = entry.bytes.count
        expectedByteCount = entry.representation.total
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
        default: false
        }
    }

    /// Returns whether a URL identifies the same resource. Signatures in the query, which change with each request, are
    /// ignored.
    public func isOf(_ other: URL) -> Bool { ResourcePlace(url) == ResourcePlace(other.absoluteURL) }
}

extension ResumeData: Codable {
    /// The encoded form.
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
            self.version = version
            self.url = url
            self.file = file
            self.journal = journal
            guard let digest = Self.digest(version, url, file, journal) else {
                throw .malformed("The digest could not be computed.")
            }
            self.digest = digest
        }

        /// Returns the digest of the members in the order of their names, each preceded by its length.
        static func digest(_ version: Int, _ url: String, _ file: String, _ journal: String) -> String? {
            let digest = MessageDigest()
            for member in [file, journal, url, "\(version)"] { digest.update(Data("\(member.utf8.count):\(member)".utf8)) }
            return digest.value()?.hexadecimalString
        }
    }

    private struct Version: Decodable { var version: Int }

    /// Decodes the members of the JSON form.
    ///
    /// - Throws: ``ResumeDataError``, or the decoder's error.
    public init(from decoder: any Decoder) throws {
        let version = try Version(from: decoder).version
        guard version == Self.currentVersion else { throw ResumeDataError.unsupportedVersion(version) }
        let members = try Members(from: decoder)
        let digest = Members.digest(members.version, members.url, members.file, members.journal)
        guard let digest, digest.utf8.elementsEqual(members.digest.utf8) else {
            throw ResumeDataError.malformed("The digest does not match, so the data was changed or damaged.")
        }
        try self.init(members)
    }

    /// Encodes the members of the JSON form.
    public func encode(to encoder: any Encoder) throws {
        try Members(Self.currentVersion, url.absoluteString, name, journal).encode(to: encoder)
    }
}

extension ResumeData: CustomStringConvertible {
    /// The URL without secrets, and the number of bytes stored.
    public var description: String {
        "\(Redaction.url(url.absoluteString)): \(byteCount) of \(expectedByteCount) bytes"
    }
}

extension ResumeData: OpaqueReflectable {}

/// A reason for rejecting resume data.
public enum ResumeDataError: Error, Equatable, Sendable {
    /// The data is invalid or was changed. The value is the reason, as a sentence.
    case malformed(String)
    /// The data was written by a later version of this library.
    case unsupportedVersion(Int)
    /// The URL differs from the URL of the request or of the journal entry.
    case otherURL
}

extension ResumeDataError: SelfDescribingError {
    /// A sentence that describes the problem.
    public var description: String {
        switch self {
        case .malformed(let reason): "The resume data cannot be read. \(reason)"
        case .unsupportedVersion(let version):
            "The resume data has version \(version), but this library supports only version \(ResumeData.currentVersion)."
        case .otherURL: "The resume data belongs to another URL."
        }
    }
}

extension DownloadOperation {
    /// The resume data of a finished operation whose destination has a generated name; nil if there is nothing to
    /// resume: no bytes, no validators, or a complete file.
    package final var resumeData: ResumeData? {
        guard isFinished, outcome == nil, let url = request.url?.absoluteURL, let destination,
            let download = download.withLock({ $0 })
        else { return nil }
        let (representation, done) = download.state.withLock { ($0.plan.representation, $0.plan.done) }
        guard let representation else { return nil }
        return ResumeData(url: url, name: PathText.name(of: destination.path), representation, done)
    }
}
