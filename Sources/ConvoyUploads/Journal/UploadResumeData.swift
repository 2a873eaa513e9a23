import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// What an upload of a file that was stopped has left: enough to go on with it later, in this process or another one. The
/// counterpart of the resume data of `URLSession`'s upload tasks.
///
/// It is JSON, with the file's path and what the upload's own journal says: where the server has the upload, and which file it
/// was begun with. It holds no header fields, and no secrets.
///
/// Resume data may come from anybody. It decides nothing about bytes: the server says how much it has, and a file that has
/// changed is an error before a byte is sent.
public struct UploadResumeData: Sendable, Hashable {
    /// The version of the format that this library writes.
    public static let currentVersion = 1
    /// Longer data is not read, in bytes.
    public static let maximumSize = 64 << 10

    /// The file that is sent.
    public let file: URL
    /// As JSON.
    public let data: Data
    let record: UploadRecord

    /// How many bytes the server had confirmed.
    public var confirmedByteCount: Int64 { record.parts.reduce(0) { $0 + $1.offset } }

    private struct Members: Codable {
        var version: Int
        var file: String
        var record: UploadRecord
        var digest: String
    }

    /// The resume data that some bytes are, as ``data`` has them.
    ///
    /// - Throws: ``UploadError/Reason/unusableJournal(_:)``.
    public init(_ data: Data) throws(UploadError) {
        guard data.count <= Self.maximumSize, let members = try? JSONDecoder().decode(Members.self, from: data) else {
            throw UploadError(.unusableJournal("This is no resume data of an upload."))
        }
        guard members.version == Self.currentVersion else {
            throw UploadError(.unusableJournal("The resume data has version \(members.version), and this library knows 1."))
        }
        guard members.record.isSound, members.file.hasPrefix("/"),
            Self.digest(members.file, members.record) == members.digest
        else { throw UploadError(.unusableJournal("The resume data was changed or damaged.")) }
        (file, record, self.data) = (URL(fileURLWithPath: members.file), members.record, data)
    }

    init?(_ file: URL, _ record: UploadRecord) {
        let path = file.absoluteURL.standardizedFileURL.path
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard !record.parts.isEmpty, let digest = Self.digest(path, record),
            let data = try? encoder.encode(
                Members(version: Self.currentVersion, file: path, record: record, digest: digest))
        else { return nil }
        (self.file, self.record, self.data) = (URL(fileURLWithPath: path), record, data)
    }

    private static func digest(_ path: String, _ record: UploadRecord) -> String? {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(record) else { return nil }
        return MessageDigest.sha256(Data("\(path.utf8.count):\(path)".utf8) + json)?.hexadecimalString
    }

    /// Whether two have the same bytes.
    public static func == (one: Self, other: Self) -> Bool { one.data == other.data }

    /// Hashes the bytes.
    public func hash(into hasher: inout Hasher) { hasher.combine(data) }
}

extension UploadResumeData: CustomStringConvertible {
    /// The URL without secrets, and how many bytes the server had.
    public var description: String { "\(record.shown): \(confirmedByteCount) bytes" }
}
