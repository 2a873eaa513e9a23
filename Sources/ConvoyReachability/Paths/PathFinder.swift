import CEpoll
import ConvoySupport
import Foundation

/// Asks the kernel for the way to addresses.
///
/// It asks with `RTM_GETROUTE`, the question behind `ip route get`: the kernel looks the address up as for a packet of this
/// process, with all its rules and tables, and names the link. A connected datagram socket would make it look in the same
/// way, but tells neither the link nor that the address is the machine's own. Nothing is sent.
///
/// It is made anew for each look at the network, as it remembers what it has seen of links. Not for several threads.
final class PathFinder {
    private let socket: NetlinkSocket
    private let linkFolder: String
    private var sequence: UInt32 = 0
    private var buffer = [UInt8](repeating: 0, count: 1 << 16)
    /// The status over each link; nil for one that does not run.
    private var statuses: [UInt32: NetworkReachabilityStatus?] = [:]
    /// Whether the system has refused an answer, so that nothing is known. Looking again later may help.
    private(set) var hasFailed = false

    /// - Parameter linkFolder: the folder of all links; see ``LinkKind``.
    init(linkFolder: String = LinkKind.systemFolder) throws(SystemError) {
        socket = try NetlinkSocket()
        self.linkFolder = linkFolder
    }

    /// The status of a host with these addresses: that of the first to which there is a way. nil if the system does not
    /// tell.
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

    /// The status over the way to an address; nil if there is none.
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

    /// The answer of the kernel, which may be an error: there is no such route, or no such link.
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
