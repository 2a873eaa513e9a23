import ConvoySupport
import Foundation

/// The kind of a network link.
enum LinkKind: Hashable {
    case wire, wifi, mobile

    /// The folder in which Linux describes links.
    static let systemFolder = "/sys/class/net"

    /// The kind of a link, from files alone.
    ///
    /// - Parameters:
    ///   - name: The name of the link, such as `wlan0`.
    ///   - folder: The folder of all links, such as `/sys/class/net`. If it lacks this one, as in a container that sees
    ///     another namespace's files, the name decides.
    init(ofLink name: String, in folder: String) {
        self = Self.kind(of: name, LinkFiles(folder: folder), depth: 0)
    }

    /// The maximum depth of stacked links, such as a VLAN on a bridge on a bond. It also ends cycles.
    private static let deepest = 8

    private static func kind(of name: String, _ files: LinkFiles, depth: Int) -> LinkKind {
        guard files.exists(name) else { return kind(byName: name) }
        if files.exists(name, "wireless") || files.exists(name, "phy80211") { return .wifi }
        switch files.deviceType(name) {
        case "wlan": return .wifi
        case "wwan": return .mobile
        default: break
        }
        // A modem without a link layer (raw IP).
        if files.number(name, "type") == HardwareType.rawIP || hasMobileName(name) { return .mobile }
        if files.number(name, "type") == HardwareType.ppp { return isOfModem(name, files) ? .mobile : .wire }
        return depth < deepest ? kindBelow(name, files, depth: depth) : .wire
    }

    /// The kind of the lower links of a VLAN, bridge or bond. Of several kinds, wired wins: a bridge to an access point
    /// also has a wired link.
    private static func kindBelow(_ name: String, _ files: LinkFiles, depth: Int) -> LinkKind {
        if let active = files.text(name, "bonding/active_slave"), !active.isEmpty {
            return kind(of: active, files, depth: depth + 1)
        }
        let kinds = Set(files.linksBelow(name).map { kind(of: $0, files, depth: depth + 1) })
        if kinds.isEmpty || kinds.contains(.wire) { return .wire }
        return kinds.contains(.wifi) ? .wifi : .mobile
    }

    /// Whether a PPP link belongs to a modem rather than a line such as PPPoE. The link itself does not show that; if
    /// there is a modem, it counts as the modem's.
    private static func isOfModem(_ name: String, _ files: LinkFiles) -> Bool {
        if let driver = files.driver(name) { return modemDrivers.contains(driver) }
        return files.hasModems || files.allLinks().contains { files.deviceType($0) == "wwan" }
    }

    private static let modemDrivers: Set = ["cdc_acm", "option", "qcserial", "sierra", "usb_wwan"]

    private static func kind(byName name: String) -> LinkKind {
        if hasMobileName(name) { return .mobile }
        // Both systemd's and the kernel's names of wireless links begin with this.
        return name.hasPrefix("wl") ? .wifi : .wire
    }

    private static func hasMobileName(_ name: String) -> Bool {
        name.hasPrefix("ww") || name.hasPrefix("rmnet")
    }

    /// `ARPHRD_…` of `<linux/if_arp.h>`.
    private enum HardwareType {
        static let ppp = 512
        static let rawIP = 519
    }
}

/// Reads the files that describe links, in a folder such as `/sys/class/net`.
struct LinkFiles {
    let folder: String

    /// Whether a file exists. Also true for a dangling symbolic link.
    func exists(_ link: String, _ file: String = "") -> Bool {
        guard let path = path(link, file) else { return false }
        var information = stat()
        return lstat(path, &information) == 0
    }

    /// The text of a single-line file, without the line feed.
    func text(_ link: String, _ file: String) -> String? {
        guard let path = path(link, file), let data = FileManager.default.contents(atPath: path) else { return nil }
        return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    func number(_ link: String, _ file: String) -> Int? { text(link, file).flatMap { Int($0) } }

    /// The device type that the driver has set, such as `wlan`, `wwan`, `bridge` or `vlan`.
    func deviceType(_ link: String) -> String? {
        let lines = text(link, "uevent")?.split(separator: "\n") ?? []
        return lines.first { $0.hasPrefix("DEVTYPE=") }.map { String($0.dropFirst("DEVTYPE=".count)) }
    }

    /// The name of the device's driver.
    func driver(_ link: String) -> String? {
        guard let path = path(link, "device/driver") else { return nil }
        let target = try? FileManager.default.destinationOfSymbolicLink(atPath: path)
        return target?.split(separator: "/").last.map { String($0) }
    }

    /// The lower links of a virtual one.
    func linksBelow(_ link: String) -> [String] {
        entries(path(link, "")).filter { $0.hasPrefix("lower_") }.map { String($0.dropFirst("lower_".count)) }
    }

    func allLinks() -> [String] { entries(folder) }

    /// Whether the system has modems, which the kernel describes in a folder beside that of the links.
    var hasModems: Bool {
        !entries((folder as NSString).deletingLastPathComponent + "/wwan").isEmpty
    }

    private func entries(_ path: String?) -> [String] {
        path.flatMap { try? FileManager.default.contentsOfDirectory(atPath: $0) }?.sorted() ?? []
    }

    /// The path of a file; nil for a link name that would leave the folder.
    private func path(_ link: String, _ file: String) -> String? {
        guard !link.isEmpty, !link.contains("/"), link != ".", link != ".." else { return nil }
        return file.isEmpty ? "\(folder)/\(link)" : "\(folder)/\(link)/\(file)"
    }
}
