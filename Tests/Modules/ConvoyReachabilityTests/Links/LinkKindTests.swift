import Foundation
import Testing

@testable import ConvoyReachability

/// The kind of a link, as described by its files.
@Suite struct LinkKindTests {
    private func kind(_ name: String, _ build: (LinkTree) throws -> Void) throws -> LinkKind {
        let tree = try LinkTree()
        try build(tree)
        return LinkKind(ofLink: name, in: tree.folder)
    }

    @Test func `a network card is classified as wired`() throws {
        #expect(try kind("eth0") { try $0.add("eth0") } == .wire)
        #expect(
            try kind("enp0s3") { try $0.add("enp0s3", links: ["device/driver": "../../bus/pci/drivers/e1000"]) } == .wire)
        #expect(try kind("lo") { _ in } == .wire)
    }

    @Test func `a wireless LAN is recognized by any of its properties, under any name`() throws {
        #expect(try kind("net0") { try $0.add("net0", ["wireless/": ""]) } == .wifi)
        #expect(try kind("net0") { try $0.add("net0", links: ["phy80211": "../../ieee80211/phy0"]) } == .wifi)
        #expect(try kind("net0") { try $0.add("net0", ["uevent": "DEVTYPE=wlan\nINTERFACE=net0\n"]) } == .wifi)
        #expect(try kind("wlan0") { try $0.add("wlan0") } == .wire, "a cable with such a name")
    }

    @Test func `a modem is recognized by its driver, its packets, or its name`() throws {
        #expect(try kind("net0") { try $0.add("net0", ["uevent": "DEVTYPE=wwan\nINTERFACE=net0\n"]) } == .mobile)
        #expect(try kind("net0") { try $0.add("net0", type: 519) } == .mobile)
        #expect(try kind("wwan0") { try $0.add("wwan0") } == .mobile)
        #expect(try kind("wwp0s20f0u6") { try $0.add("wwp0s20f0u6") } == .mobile)
        #expect(try kind("rmnet_data0") { try $0.add("rmnet_data0", type: 519) } == .mobile)
    }

    @Test func `PPP is mobile if there is a modem, and wired otherwise, as with PPPoE`() throws {
        #expect(try kind("ppp0") { try $0.add("ppp0", type: 512) } == .wire)
        #expect(
            try kind("ppp0") {
                try $0.add("ppp0", type: 512)
                try $0.addModem("wwan0at0")
            } == .mobile)
        #expect(
            try kind("ppp0") {
                try $0.add("ppp0", type: 512)
                try $0.add("net1", ["uevent": "DEVTYPE=wwan\n"])
            } == .mobile)
        for (driver, expected) in [("option", LinkKind.mobile), ("cdc_acm", .mobile), ("pppoe", .wire)] {
            #expect(
                try kind("ppp0") {
                    try $0.add("ppp0", type: 512, links: ["device/driver": "../../bus/usb-serial/drivers/\(driver)"])
                    try $0.addModem("wwan0at0")
                } == expected, "\(driver)")
        }
    }

    @Test func `a virtual link has the kind of the link below it`() throws {
        let tree = try LinkTree()
        try tree.add("eth0")
        try tree.add("wlan0", ["wireless/": ""])
        try tree.add("wwan0")
        try tree.add("vlan5", links: ["lower_wlan0": "../wlan0"])
        try tree.add("vlan6", links: ["lower_vlan5": "../vlan5"])
        try tree.add("br0", links: ["lower_wlan0": "../wlan0", "lower_eth0": "../eth0"])
        try tree.add("br1", links: ["lower_wlan0": "../wlan0", "lower_wwan0": "../wwan0"])
        try tree.add("br2", links: ["lower_wwan0": "../wwan0"])
        try tree.add(
            "bond0", ["bonding/active_slave": "wlan0\n"], links: ["lower_wlan0": "../wlan0", "lower_eth0": "../eth0"])
        try tree.add(
            "bond1", ["bonding/active_slave": "\n"], links: ["lower_wlan0": "../wlan0", "lower_eth0": "../eth0"])
        let kinds = ["vlan5", "vlan6", "br0", "br1", "br2", "bond0", "bond1"].map { LinkKind(ofLink: $0, in: tree.folder) }
        #expect(kinds == [.wifi, .wifi, .wire, .wifi, .mobile, .wifi, .wire])
    }

    @Test func `a cycle of links ends the search`() throws {
        let tree = try LinkTree()
        try tree.add("a0", links: ["lower_b0": "../b0"])
        try tree.add("b0", links: ["lower_a0": "../a0"])
        #expect(LinkKind(ofLink: "a0", in: tree.folder) == .wire)
    }

    @Test(arguments: [
        ("wlan0", LinkKind.wifi), ("wlp3s0", .wifi), ("wwan0", .mobile), ("wwp0s2", .mobile), ("eth0", .wire),
        ("tun0", .wire),
        ("ppp0", .wire), ("", .wire), ("..", .wire), ("wlan0/../eth0", .wifi),
    ])
    func `the name decides without files, as in a container`(_ name: String, _ expected: LinkKind) throws {
        #expect(LinkKind(ofLink: name, in: try LinkTree().folder) == expected)
        #expect(LinkKind(ofLink: name, in: "/nowhere") == expected)
    }

    @Test func `a file that is damaged, empty or a folder is ignored`() throws {
        #expect(try kind("net0") { try $0.add("net0", ["type": "many\n", "uevent": "\u{0}\n\n=DEVTYPE\n"]) } == .wire)
        #expect(try kind("net0") { try $0.add("net0", ["type": "", "uevent": "", "bonding/active_slave/": ""]) } == .wire)
    }
}
