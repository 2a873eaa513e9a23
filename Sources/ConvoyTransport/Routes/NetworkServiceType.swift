import Foundation
import FoundationNetworking

/// The purpose of a connection's traffic, by which networks can prioritize it: Foundation's
/// `URLRequest.NetworkServiceType`, which on Linux has not all of its cases.
///
/// It becomes two marks of the connection's packets: the DSCP of RFC 4594, which routers and wireless LANs (RFC 8325)
/// may look at, and the priority by which Linux queues them at the way out (`SO_PRIORITY`). Many networks ignore or
/// remove the DSCP; nothing is promised.
public enum NetworkServiceType: Sendable, Hashable, CaseIterable {
    /// Like any other: no marks.
    case `default`
    /// Bulk traffic without a waiting user, such as a backup: CS1, after everything else.
    case background
    /// Traffic that a user waits for, such as the response to a click: AF21.
    case responsiveData
    /// Video or sound that is sent as it is seen, such as a film: AF31.
    case avStreaming
    /// A conversation with pictures: AF41.
    case video
    /// A conversation: EF.
    case voice
    /// Setting up a conversation: CS5.
    case callSignaling

    /// Foundation's value; `.default` for one that a later version has.
    public init(_ type: URLRequest.NetworkServiceType) {
        switch type {
        case .background: self = .background
        case .video: self = .video
        case .voice: self = .voice
        case .voip, .networkServiceTypeCallSignaling: self = .callSignaling
        default: self = .default
        }
    }

    /// The six bits of RFC 2474.
    var dscp: Int32 {
        switch self {
        case .default: 0
        case .background: 8
        case .responsiveData: 18
        case .avStreaming: 26
        case .video: 34
        case .callSignaling: 40
        case .voice: 46
        }
    }

    /// A class of `<linux/pkt_sched.h>`. (The numbers in between count less than 0 by default.)
    var priority: Int32 {
        switch self {
        case .default: 0
        case .background: 1
        case .avStreaming, .video: 4
        case .responsiveData, .voice, .callSignaling: 6
        }
    }

    /// Marks the packets of a socket, as far as the system allows it.
    func mark(_ descriptor: Int32, family: Int32) {
        guard self != .default else { return }
        // The two bits below are the system's, for congestion.
        var byte = dscp << 2
        var priority = priority
        let size = socklen_t(MemoryLayout<Int32>.size)
        if family == AF_INET6 { setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_TCLASS, &byte, size) }
        // Also of a socket for IPv6, which may carry IPv4.
        setsockopt(descriptor, Int32(IPPROTO_IP), IP_TOS, &byte, size)
        // Last, as the previous call sets a priority as well.
        setsockopt(descriptor, SOL_SOCKET, SO_PRIORITY, &priority, size)
    }
}
