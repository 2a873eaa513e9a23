import CEpoll
import ConvoySupport
import ConvoyTransport
import Foundation

/// What a file was fetched with, by which a server can say whether it has changed: kept in an extended attribute of the
/// file, where the file system has them. As texts of `EchoedValue`.
struct StoredValidators: Sendable, Equatable {
    /// For `If-None-Match`.
    var entityTag: String?
    /// For `If-Modified-Since`.
    var modified: String?

    private static let name = "user.convoy.validators"

    init(_ head: ResponseHead) {
        (entityTag, modified) = (head.echoedValue(of: "ETag")?.text, head.echoedValue(of: "Last-Modified")?.text)
    }

    /// Those of a file that is there: what was stored with it, if it was not changed since, or else the time when it was
    /// last modified.
    init(of path: String) {
        var information = stat()
        guard stat(path, &information) == 0, information.st_mode & S_IFMT == S_IFREG else { return }
        modified = HTTPDate.string(Int64(information.st_mtim.tv_sec))
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = cepoll_get_attribute(path, Self.name, &bytes, bytes.count)
        guard count > 0 else { return }
        // The length of the file, the time when it was last modified, and what the server said.
        let lines = String(decoding: bytes[..<count], as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count == 4, "\(lines[0])\n\(lines[1])" == Self.condition(information) else { return }
        entityTag = EchoedValue(text: String(lines[2]))?.text
        if let stored = EchoedValue(text: String(lines[3])) { modified = stored.text }
    }

    /// What tells that a file was not changed: its length, and when it was last modified, to the nanosecond.
    private static func condition(_ information: stat) -> String {
        "\(information.st_size)\n\(information.st_mtim.tv_sec).\(information.st_mtim.tv_nsec)"
    }

    /// Stores them with a file that is about to get its name. Where that is not possible, its time remains.
    func store(in file: DownloadFile) {
        guard entityTag != nil || modified != nil, (entityTag ?? "").utf8.count + (modified ?? "").utf8.count < 3000 else {
            return
        }
        file.storeAttribute(Self.name) { information in
            Array("\(Self.condition(information))\n\(entityTag ?? "")\n\(modified ?? "")".utf8)
        }
    }
}
