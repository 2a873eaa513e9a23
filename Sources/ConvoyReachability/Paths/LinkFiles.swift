import Foundation

/// The files that describe links, in a folder as `/sys/class/net`.
struct LinkFiles {
    let folder: String

    /// Also true for a symbolic link to something that cannot be seen from here.
    func exists(_ link: String, _ file: String = "") -> Bool {
        guard let path = path(link, file) else { return false }
        var information = stat()
        return lstat(path, &information) == 0
    }

    /// The text of a file of one line, without its end.
    func text(_ link: String, _ file: String) -> String? {
        guard let path = path(link, file), let data = FileManager.default.contents(atPath: path) else { return nil }
        return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    func number(_ link: String, _ file: String) -> Int? { text(link, file).flatMap { Int($0) } }

    /// What its driver calls it, such as `wlan`, `wwan`, `bridge` or `vlan`.
    func deviceType(_ link: String) -> String? {
        let lines = text(link, "uevent")?.split(separator: "\n") ?? []
        return lines.first { $0.hasPrefix("DEVTYPE=") }.map { String($0.dropFirst("DEVTYPE=".count)) }
    }

    /// The name of the driver of its device.
    func driver(_ link: String) -> String? {
        guard let path = path(link, "device/driver") else { return nil }
        let target = try? FileManager.default.destinationOfSymbolicLink(atPath: path)
        return target?.split(separator: "/").last.map { String($0) }
    }

    /// The links that this one lies on.
    func linksBelow(_ link: String) -> [String] {
        entries(path(link, "")).filter { $0.hasPrefix("lower_") }.map { String($0.dropFirst("lower_".count)) }
    }

    func allLinks() -> [String] { entries(folder) }

    /// Whether the kernel knows of modems, which it describes in a folder beside that of the links.
    var hasModems: Bool {
        !entries((folder as NSString).deletingLastPathComponent + "/wwan").isEmpty
    }

    private func entries(_ path: String?) -> [String] {
        path.flatMap { try? FileManager.default.contentsOfDirectory(atPath: $0) }?.sorted() ?? []
    }

    /// nil for a name that would lead elsewhere.
    private func path(_ link: String, _ file: String) -> String? {
        guard !link.isEmpty, !link.contains("/"), link != ".", link != ".." else { return nil }
        return file.isEmpty ? "\(folder)/\(link)" : "\(folder)/\(link)/\(file)"
    }
}
