import CEpoll

/// Where the kernel would send a packet for an address.
struct NetworkPath: Equatable {
    /// Whether the address is one of this machine.
    var isLocal: Bool
    /// The number of the link; 0 if the answer has none.
    var linkIndex: UInt32
    /// The address from which it would be sent; nil if the machine has none for it.
    var source: [UInt8]?

    /// The path of an answer to `RTM_GETROUTE`; nil where it says that there is none, or says nothing.
    init?(_ message: NetlinkMessage) {
        guard Int(message.type) == RTM_NEWROUTE,
            // The seventh byte of the structure.
            let kind = message.payload.integer(at: 7, as: UInt8.self).map({ Int($0) }),
            [RTN_UNICAST, RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST, RTN_MULTICAST].contains(kind)
        else { return nil }
        let attributes = message.attributes(after: MemoryLayout<rtmsg>.size)
        isLocal = kind == RTN_LOCAL
        linkIndex = attributes[Int(RTA_OIF.rawValue)]?.integer(at: 0, as: UInt32.self) ?? 0
        source = attributes[Int(RTA_PREFSRC.rawValue)].map { Array($0) }
    }

    /// Whether what is sent to the address can come to it and back, as far as the machine knows: it has an address for it
    /// that means something there.
    func hasUsableSource(for address: HostAddress) -> Bool {
        // The kernel names loopback as a source of last resort, such as when it still checks the link's own address.
        guard let source, source.contains(where: { $0 != 0 }), !HostAddress.isLoopback(source[...]) else { return false }
        return address.isOfOneLink || !HostAddress.isLinkLocal(source[...])
    }
}

/// A network link.
struct NetworkLink: Equatable {
    var name: String
    /// Whether it carries packets: it is switched on, and there is another end.
    var isRunning: Bool

    /// The link of an answer to `RTM_GETLINK`.
    init?(_ message: NetlinkMessage) {
        guard Int(message.type) == RTM_NEWLINK, let flags = message.payload.integer(at: 8, as: UInt32.self) else {
            return nil
        }
        let attributes = message.attributes(after: MemoryLayout<ifinfomsg>.size)
        name = attributes[Int(IFLA_IFNAME)]?.text ?? ""
        isRunning = flags & Self.up != 0 && flags & Self.running != 0
    }

    /// `IFF_UP` and `IFF_RUNNING` of `<net/if.h>`.
    private static let up: UInt32 = 1 << 0
    private static let running: UInt32 = 1 << 6
}
