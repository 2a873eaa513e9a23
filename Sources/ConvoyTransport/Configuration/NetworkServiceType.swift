import Foundation
import FoundationNetworking

/// The purpose of a connection's traffic, by which networks can prioritize it. Corresponds to Foundation's
/// `URLRequest.NetworkServiceType`, which lacks some cases on Linux.
///
/// It sets two marks on the connection's packets: the DSCP of RFC 4594, which routers and wireless LANs (RFC 8325) may
/// use, and the priority by which Linux queues outgoing packets (`SO_PRIORITY`). Many networks ignore or remove the
/// DSCP, so prioritization is not guaranteed.
public enum NetworkServiceType: Sendable, Hashable, CaseIterable {
    /// Ordinary traffic, without marks.
    case `default`
    /// Bulk traffic without a waiting user, such as a backup: CS1, with the lowest priority.
    case background
    /// Traffic that a user is waiting for, such as the response to a click: AF21.
    case responsiveData
    /// Streaming video or audio, such as a film: AF31.
    case avStreaming
    /// A video call: AF41.
    case video
    /// A voice call: EF.
    case voice
    /// Call signalling: CS5.
    case callSignaling

    /// Creates the type for Foundation's value; `.default` for a value added in a later version.
    public init(_ type: URLRequest.NetworkServiceType) {
        switch type {
        case .background: self = .background
        case .video: self = .video
        case .voice: self = .voice
        case .voip, .networkServiceTypeCallSignaling: self = .callSignaling
        default: self = .default
        }
    }

    /// The six-bit DSCP of RFC 2474.
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

    /// A priority class of `<linux/pkt_sched.h>`. (By default, the numbers in between rank below 0.)
    var priority: Int32 {
        switch self {
        case .default: 0
        case .background: 1
        case .avStreaming, .video: 4
        case .responsiveData, .voice, .callSignaling: 6
        }
    }

    /// Marks the packets of a socket, if the system permits it.
    func mark(_ descriptor: Int32, family: Int32) {
        guard self != .default else { return }
        // The two low bits are reserved for the system's congestion notification.
        var byte = dscp << 2
        var priority = priority
        let size = socklen_t(MemoryLayout<Int32>.size)
        if family == AF_INET6 { setsockopt(descriptor, Int32(IPPROTO_IPV6), IPV6_TCLASS, &byte, size) }
        // Set this option even for an IPv6 socket, which may carry IPv4.
        setsockopt(descriptor, Int32(IPPROTO_IP), IP_TOS, &byte, size)
        // Set this option last, because the previous call also sets a priority.
        setsockopt(descriptor, SOL_SOCKET, SO_PRIORITY, &priority, size)
    }
}
