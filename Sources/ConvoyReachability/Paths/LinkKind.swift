import ConvoySupport
import Foundation

/// What a network link is made of.
enum LinkKind: Hashable {
    case wire, wifi, mobile

    /// Where Linux describes its links, a folder for each.
    static let systemFolder = "/sys/class/net"

    /// The kind of a link, from files alone.
    ///
    /// - Parameters:
    ///   - name: that of the link, such as `wlan0`.
    ///   - folder: that of all links, as `/sys/class/net`. Where it does not have this one, as in a container that sees
    ///     another one's files, the name decides.
    init(ofLink name: String, in folder: String) {
        self = Self.kind(of: name, LinkFiles(folder: folder), depth: 0)
    }

    /// How many links may lie on top of each other: a VLAN on a bridge on a bond on a card. A circle ends there, too.
    private static let deepest = 8

    private static func kind(of name: String, _ files: LinkFiles, depth: Int) -> LinkKind {
        guard files.exists(name) else { return kind(byName: name) }
        if files.exists(name, "wireless") || files.exists(name, "phy80211") { return .wifi }
        switch files.deviceType(name) {
        case "wlan": return .wifi
        case "wwan": return .mobile
        default: break
        }
        // A modem whose packets have no link layer.
        if files.number(name, "type") == HardwareType.rawIP || hasMobileName(name) { return .mobile }
        if files.number(name, "type") == HardwareType.ppp { return isOfModem(name, files) ? .mobile : .wire }
        return depth < deepest ? kindBelow(name, files, depth: depth) : .wire
    }

    /// The kind of what a VLAN, a bridge or a bond lies on. Of several kinds it is that which needs a cable, as a bridge to
    /// an access point has one.
    private static func kindBelow(_ name: String, _ files: LinkFiles, depth: Int) -> LinkKind {
        if let active = files.text(name, "bonding/active_slave"), !active.isEmpty {
            return kind(of: active, files, depth: depth + 1)
        }
        let kinds = Set(files.linksBelow(name).map { kind(of: $0, files, depth: depth + 1) })
        if kinds.isEmpty || kinds.contains(.wire) { return .wire }
        return kinds.contains(.wifi) ? .wifi : .mobile
    }

    /// Whether a link of PPP is a call by a modem, and not a line such as PPPoE. The link itself does not say that; where
    /// there is a modem, it is its.
    private static func isOfModem(_ name: String, _ files: LinkFiles) -> Bool {
        if let driver = files.driver(name) { return modemDrivers.contains(driver) }
        return files.hasModems || files.allLinks().contains { files.deviceType($0) == "wwan" }
    }

    private static let modemDrivers: Set = ["cdc_acm", "option", "qcserial", "sierra", "usb_wwan"]

    private static func kind(byName name: String) -> LinkKind {
        if hasMobileName(name) { return .mobile }
        // systemd's names begin in this way, the kernel's too.
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
