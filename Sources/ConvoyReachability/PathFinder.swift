import CEpoll
import ConvoySupport
import Foundation

/// A finder of the kernel's route to addresses.
///
/// It uses `RTM_GETROUTE`, like `ip route get`: the kernel looks up the address as for a packet of this process, with
/// all rules and tables, and returns the link. Connecting a datagram socket would perform the same lookup, but reveals
/// neither the link nor whether the address is local. No packet is sent.
///
/// Create a new path finder for each evaluation, because it caches links. Not thread-safe.
final class PathFinder {
    private let socket: NetlinkSocket
    private let linkFolder: String
    private var sequence: UInt32 = 0
    private var buffer = [UInt8](repeating: 0, count: 1 << 16)
    /// The status for each link; nil for a link that is down.
    private var statuses: [UInt32: NetworkReachabilityStatus?] = [:]
    /// Whether the kernel did not respond to a request, so that the status is unknown. A later attempt may succeed.
    private(set) var hasFailed = false

    /// - Parameter linkFolder: The folder that describes all links; see ``LinkKind``.
    init(linkFolder: String = LinkKind.systemFolder) throws(SystemError) {
        socket = try NetlinkSocket()
        self.linkFolder = linkFolder
    }

    /// Returns the status of a host with the given addresses: that of the first address with a route; nil if the kernel
    /// does not respond.
    func status(of addresses: [HostAddress]) -> NetworkReachabilityStatus? {
        do throws(SystemError) {
            for address in addresses {
                if let status = try status(of: address) { return status }
            }
            return .notReachable
        } catch {
            hasFailed = true
            return nil
        }
    }

    /// Returns the status of the route to an address; nil without a route.
    private func status(of address: HostAddress) throws(SystemError) -> NetworkReachabilityStatus? {
        if address.isLoopback { return .reachableViaWire }
        guard let zone = address.zoneIndex, let path = try path(to: address, zone: zone) else { return nil }
        if path.isLocal { return .reachableViaWire }
        guard path.hasUsableSource(for: address) else { return nil }
        return try status(overLink: path.linkIndex)
    }

    private func status(overLink index: UInt32) throws(SystemError) -> NetworkReachabilityStatus? {
        if let known = statuses[index] { return known }
        var status: NetworkReachabilityStatus?
        if let link = try link(index), link.isRunning {
            switch LinkKind(ofLink: link.name, in: linkFolder) {
            case .mobile: status = .reachableViaWWAN
            case .wifi: status = .reachableViaWiFi
            case .wire: status = .reachableViaWire
            }
        }
        statuses[index] = .some(status)
        return status
    }

    private func path(to address: HostAddress, zone: UInt32) throws(SystemError) -> NetworkPath? {
        var structure = [UInt8](repeating: 0, count: MemoryLayout<rtmsg>.size)
        structure[0] = UInt8(address.isIPv6 ? AF_INET6 : AF_INET)
        structure[1] = UInt8(address.bytes.count * 8)
        var attributes = [(type: Int(RTA_DST.rawValue), value: address.bytes)]
        if zone != 0 { attributes.append((Int(RTA_OIF.rawValue), NetlinkMessage.bytes(of: zone))) }
        return try answer(to: Int(RTM_GETROUTE), structure, attributes).flatMap { NetworkPath($0) }
    }

    private func link(_ index: UInt32) throws(SystemError) -> NetworkLink? {
        var structure = [UInt8](repeating: 0, count: MemoryLayout<ifinfomsg>.size)
        structure.replaceSubrange(4..<8, with: NetlinkMessage.bytes(of: index))
        return try answer(to: Int(RTM_GETLINK), structure).flatMap { NetworkLink($0) }
    }

    /// Returns the kernel's response to a request; nil if it reports that the route or link does not exist.
    private func answer(
        to type: Int, _ structure: [UInt8], _ attributes: [(type: Int, value: [UInt8])] = []
    ) throws(SystemError) -> NetlinkMessage? {
        sequence += 1
        try socket.send(
            NetlinkMessage.request(type: type, sequence: sequence, structure: structure, attributes: attributes))
        while true {
            switch socket.receive(into: &buffer) {
            case .datagram(let datagram):
                let sequence = sequence
                if let answer = NetlinkMessage.all(in: datagram).first(where: { $0.sequence == sequence }) { return answer }
            case .nothing: throw SystemError(code: EAGAIN)
            case .overrun: throw SystemError(code: ENOBUFS)
            case .failure(let error): throw error
            }
        }
    }
}

/// The route that the kernel would choose for an address.
struct NetworkPath: Equatable {
    /// Whether the address belongs to this machine.
    var isLocal: Bool
    /// The interface index; 0 if the response does not contain one.
    var linkIndex: UInt32
    /// The source address; nil if the machine does not have one for this destination.
    var source: [UInt8]?

    /// Parses the path in a response to `RTM_GETROUTE`; nil if the response contains no path.
    init?(_ message: NetlinkMessage) {
        guard Int(message.type) == RTM_NEWROUTE,
            // The field `rtm_type` is at offset 7.
            let kind = message.payload.integer(at: 7, as: UInt8.self).map({ Int($0) }),
            [RTN_UNICAST, RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST, RTN_MULTICAST].contains(kind)
        else { return nil }
        let attributes = message.attributes(after: MemoryLayout<rtmsg>.size)
        isLocal = kind == RTN_LOCAL
        linkIndex = attributes[Int(RTA_OIF.rawValue)]?.integer(at: 0, as: UInt32.self) ?? 0
        source = attributes[Int(RTA_PREFSRC.rawValue)].map { Array($0) }
    }

    /// Returns whether the machine has a source address to which the destination can reply.
    func hasUsableSource(for address: HostAddress) -> Bool {
        // The kernel falls back to a loopback source, for example while it is still checking the link's own address.
        guard let source, source.contains(where: { $0 != 0 }), !HostAddress.isLoopback(source[...]) else { return false }
        return address.isOfOneLink || !HostAddress.isLinkLocal(source[...])
    }
}

/// A network link of this machine, as reported by the kernel.
struct NetworkLink: Equatable {
    var name: String
    /// Whether the link carries packets: it is up and has a carrier.
    var isRunning: Bool

    /// Parses the link in a response to `RTM_GETLINK`.
    init?(_ message: NetlinkMessage) {
        guard Int(message.type) == RTM_NEWLINK, let flags = message.payload.integer(at: 8, as: UInt32.self) else {
            return nil
        }
        let attributes = message.attributes(after: MemoryLayout<ifinfomsg>.size)
        name = attributes[Int(IFLA_IFNAME)]?.text ?? ""
        isRunning = flags & Self.up != 0 && flags & Self.running != 0
    }

    /// `IFF_UP` and `IFF_RUNNING` in `<net/if.h>`.
    private static let up: UInt32 = 1 << 0
    private static let running: UInt32 = 1 << 6
}

/// An IPv4 or IPv6 address with an optional zone.
struct HostAddress: Hashable, Sendable {
    /// Four or sixteen bytes, in network byte order.
    let bytes: [UInt8]
    /// The zone of an IPv6 address: the link's name, or its index in decimal digits.
    let zone: String?

    /// Parses an address, for example `192.0.2.1`, `2001:db8::1`, `[::1]` or `fe80::1%eth0`; nil for any other string.
    init?(_ text: String) {
        // The C functions below would stop at a zero byte.
        guard !text.utf8.contains(0) else { return nil }
        let isBracketed = text.hasPrefix("[") && text.hasSuffix("]")
        let parts = (isBracketed ? text.dropFirst().dropLast() : text[...])
            .split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
        var bytes = [UInt8](repeating: 0, count: 16)
        if parts.count == 1, !isBracketed, inet_pton(AF_INET, String(parts[0]), &bytes) == 1 {
            self.init(bytes: Array(bytes[..<4]), zone: nil)
        } else if inet_pton(AF_INET6, String(parts[0]), &bytes) == 1 {
            guard parts.count == 1 || !parts[1].isEmpty else { return nil }
            self.init(bytes: bytes, zone: parts.count > 1 ? String(parts[1]) : nil)
        } else {
            return nil
        }
    }

    /// Returns the addresses of a host that are known without a lookup: an address itself, and the loopback addresses
    /// for `localhost` and its subdomains, to which the transport connects directly (RFC 6761, section 6.3). nil for
    /// other names.
    static func known(of host: String) -> [HostAddress]? {
        if let address = HostAddress(host) { return [address] }
        guard HostName(host)?.isLocalhost == true else { return nil }
        return ["127.0.0.1", "::1"].compactMap { HostAddress($0) }
    }

    /// Creates an address from a `sockaddr`; nil for other address families.
    init?(_ address: UnsafePointer<sockaddr>) {
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            let bytes = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                withUnsafeBytes(of: $0.pointee.sin_addr) { Array($0) }
            }
            self.init(bytes: bytes, zone: nil)
        case AF_INET6:
            let (bytes, scope) = address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                (withUnsafeBytes(of: $0.pointee.sin6_addr) { Array($0) }, $0.pointee.sin6_scope_id)
            }
            self.init(bytes: bytes, zone: scope == 0 ? nil : String(scope))
        default: return nil
        }
    }

    /// Creates an address. An IPv4-mapped IPv6 address, for example `::ffff:192.0.2.1`, becomes the IPv4 address (RFC
    /// 4291, 2.5.5.2).
    private init(bytes: [UInt8], zone: String?) {
        let isMapped = bytes.count == 16 && bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
        self.bytes = isMapped ? Array(bytes[12...]) : bytes
        self.zone = isMapped ? nil : zone
    }

    var isIPv6: Bool { bytes.count == 16 }

    /// Whether the address is a loopback address: in `127.0.0.0/8`, or `::1`.
    var isLoopback: Bool { Self.isLoopback(bytes[...]) }

    /// Whether the scope of the address is a single link (RFC 4291, sections 2.5.6 and 2.7).
    var isOfOneLink: Bool { isIPv6 && (Self.isLinkLocal(bytes[...]) || bytes[0] == 0xFF) }

    /// Returns whether the bytes are an address in `127.0.0.0/8`, or `::1`.
    static func isLoopback(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.count == 16 ? bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1 : bytes.first == 127
    }

    /// Returns whether the bytes are an IPv6 address in `fe80::/10`.
    static func isLinkLocal(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.count == 16 && bytes.starts(with: [0xFE]) && (bytes.dropFirst().first ?? 0) & 0xC0 == 0x80
    }

    /// The interface index of the zone; 0 without a zone, and nil if the interface does not exist.
    var zoneIndex: UInt32? {
        guard let zone else { return 0 }
        if let number = UInt32(zone) { return number }
        let number = if_nametoindex(zone)
        return number == 0 ? nil : number
    }
}
