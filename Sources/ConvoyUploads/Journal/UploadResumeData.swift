import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// The state of a stopped upload of a file, with which it can be resumed later by this process or another. The
/// counterpart of the resume data of `URLSession`'s upload tasks.
///
/// The data is JSON that contains the file's path and the contents of the upload's journal: the URL on the server, and
/// the identity of the file. It contains no header fields and no secrets.
///
/// Resume data may be untrusted. It makes no claims about bytes: the server reports how many bytes it has, and if the
/// file has changed, the upload fails before sending a byte.
public struct UploadResumeData: Sendable, Hashable {
    /// The version of the format that this library writes.
    package static let currentVersion = 1
    /// The maximum size of the data, in bytes.
    package static let maximumSize = 64 << 10

    /// The file to send.
    public let file: URL
    /// The data as JSON.
    public let data: Data
    let record: UploadRecord

    /// The number of bytes confirmed by the server.
    public var confirmedByteCount: Int64 { record.parts.reduce(0) { $0 + $1.offset } }

    private struct Members: Codable {
        var version: Int
        var file: String
        var record: UploadRecord
        var digest: String
    }

    /// Decodes resume data from the form in ``data``.
    ///
    /// - Throws: ``UploadError/Reason/unusableJournal(_:)``.
    public init(_ data: Data) throws(UploadError) {
        guard data.count <= Self.maximumSize, let members = try? JSONDecoder().decode(Members.self, from: data) else {
            throw UploadError(.unusableJournal("The resume data is not valid."))
        }
        guard members.version == Self.currentVersion else {
            throw UploadError(
                .unusableJournal(
                    "The resume data has version \(members.version), but this library supports only version 1."))
        }
        guard members.record.isSound, members.file.hasPrefix("/"),
            Self.digest(members.file, members.record) == members.digest
        else { throw UploadError(.unusableJournal("The resume data was changed or damaged.")) }
        file = URL(fileURLWithPath: members.file)
        record = members.record
        self.data = data
    }

    init?(_ file: URL, _ record: UploadRecord) {
        let path = file.absoluteURL.standardizedFileURL.path
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard !record.parts.isEmpty, let digest = Self.digest(path, record),
            let data = try? encoder.encode(
                Members(version: Self.currentVersion, file: path, record: record, digest: digest))
        else { return nil }
        self.file = URL(fileURLWithPath: path)
        self.record = record
        self.data = data
    }

    private static func digest(_ path: String, _ record: UploadRecord) -> String? {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(record) else { return nil }
        return MessageDigest.sha256(Data("\(path.utf8.count):\(path)".utf8) + json)?.hexadecimalString
    }

    /// Returns whether both values have the same data.
    public static func == (one: Self, other: Self) -> Bool { one.data == other.data }

    /// Hashes the encoded form, which determines equality.
    public func hash(into hasher: inout Hasher) { hasher.combine(data) }
}

extension UploadResumeData: CustomStringConvertible {
    /// The URL without secrets, and the number of bytes confirmed by the server.
    public var description: String { "\(record.shown): \(confirmedByteCount) bytes" }
}
