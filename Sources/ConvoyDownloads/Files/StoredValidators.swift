import CEpoll
import ConvoySupport
import ConvoyTransport
import Foundation

/// The validators of a downloaded file, with which the server can report whether the file has changed. They are kept in
/// an extended attribute, if the file system supports it, as `SafeFieldValue` strings.
struct StoredValidators: Sendable, Equatable {
    /// The entity tag for `If-None-Match`.
    var entityTag: String?
    /// The date for `If-Modified-Since`.
    var modified: String?

    private static let name = "user.convoy.validators"

    init(_ head: ResponseHead) {
        entityTag = head.echoedValue(of: "ETag")?.text
        modified = head.echoedValue(of: "Last-Modified")?.text
    }

    /// Reads the validators of an existing file: those stored with it, if the file has not changed since, otherwise its
    /// modification time.
    init(of path: String) {
        var information = stat()
        guard stat(path, &information) == 0, information.st_mode & S_IFMT == S_IFREG else { return }
        modified = HTTPDate.string(Int64(information.st_mtim.tv_sec))
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = cepoll_get_attribute(path, Self.name, &bytes, bytes.count)
        guard count > 0 else { return }
        // The lines are the length of the file, its modification time, and the two validators.
        let lines = String(decoding: bytes[..<count], as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count == 4, "\(lines[0])\n\(lines[1])" == Self.condition(information) else { return }
        entityTag = SafeFieldValue(text: String(lines[2]))?.text
        if let stored = SafeFieldValue(text: String(lines[3])) { modified = stored.text }
    }

    /// Returns a string that identifies an unchanged file by its length and its modification time, to the nanosecond.
    private static func condition(_ information: stat) -> String {
        "\(information.st_size)\n\(information.st_mtim.tv_sec).\(information.st_mtim.tv_nsec)"
    }

    /// Stores the validators with a file that is about to be committed. If this fails, later requests can use only the
    /// file's modification time.
    func store(in file: DownloadFile) {
        guard entityTag != nil || modified != nil, (entityTag ?? "").utf8.count + (modified ?? "").utf8.count < 3000 else {
            return
        }
        file.storeAttribute(Self.name) { information in
            Array("\(Self.condition(information))\n\(entityTag ?? "")\n\(modified ?? "")".utf8)
        }
    }
}
