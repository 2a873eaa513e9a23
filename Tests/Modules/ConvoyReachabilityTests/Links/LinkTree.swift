import ConvoyTestSupport
import Foundation

/// A folder like `/sys/class/net`, with the relevant files in Linux's format.
struct LinkTree {
    private let directory: TemporaryDirectory
    var folder: String { directory.url.path + "/net" }

    init() throws {
        directory = try TemporaryDirectory(prefix: "convoy-links")
        try add("lo", type: 772)
    }

    /// Adds a link, given its files by name, its folders with a trailing slash, and its symbolic links with their
    /// targets.
    func add(_ name: String, type: Int = 1, _ files: [String: String] = [:], links: [String: String] = [:]) throws {
        let all = files.merging(["type": "\(type)\n", "uevent": "INTERFACE=\(name)\nIFINDEX=7\n"]) { own, _ in own }
        for (file, text) in all {
            let path = "\(folder)/\(name)/\(file)"
            let parent = file.hasSuffix("/") ? path : (path as NSString).deletingLastPathComponent
            try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
            if !file.hasSuffix("/") { try Data(text.utf8).write(to: URL(fileURLWithPath: path)) }
        }
        for (file, target) in links {
            let path = "\(folder)/\(name)/\(file)"
            let parent = (path as NSString).deletingLastPathComponent
            try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
            try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: target)
        }
    }

    /// Adds the entry that the kernel creates next to the links for a modem.
    func addModem(_ name: String) throws {
        try FileManager.default.createDirectory(
            atPath: directory.url.path + "/wwan/\(name)", withIntermediateDirectories: true)
    }
}
