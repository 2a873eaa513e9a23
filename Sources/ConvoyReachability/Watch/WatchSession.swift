import CEpoll
import ConvoySupport
import Foundation

/// The thread that waits for the kernel to tell of a change of links, addresses, routes or rules, and its socket.
///
/// It waits in the kernel and looks at nothing as long as nothing changes. The socket is its only descriptor: who wants
/// something of it sends through it a message that asks for nothing but an acknowledgement, and that wakes it.
final class WatchSession: Sendable {
    /// What the thread has done.
    struct Counts: Equatable {
        /// How often it has returned from its wait.
        var wakeUps = 0
        /// How often news were lost.
        var overruns = 0
        /// How many messages of a change it has read.
        var changes = 0
    }

    private struct Members {
        /// The listeners, and for which of them there is something to do besides the changes of the network.
        var listeners: [ObjectIdentifier: any NetworkListener] = [:]
        var new: [ObjectIdentifier] = []
        var refreshing: [ObjectIdentifier] = []
        var isEnding = false
        var counts = Counts()
    }

    private static let groups = [
        RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
        RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE, RTNLGRP_NEXTHOP,
    ]

    private let socket: NetlinkSocket
    private let settings: WatchSettings
    private let state = Locked(Members())

    private init(_ socket: NetlinkSocket, _ settings: WatchSettings) {
        self.socket = socket
        self.settings = settings
    }

    static func start(_ settings: WatchSettings) throws(SystemError) -> WatchSession {
        let socket = try NetlinkSocket(groups: groups, receiveBufferSize: settings.receiveBufferSize)
        let session = WatchSession(socket, settings)
        try SystemThread.start(name: "Convoy.Reach", stackSize: 512 << 10) { session.run() }
        return session
    }

    var counts: Counts { state.withLock { $0.counts } }

    func add(_ listener: any NetworkListener) {
        state.withLock { state in
            state.listeners[ObjectIdentifier(listener)] = listener
            state.new.append(ObjectIdentifier(listener))
        }
        wake()
    }

    /// No call of the listener begins after this, but one may be under way.
    func remove(_ listener: any NetworkListener) {
        let removed = state.withLock { $0.listeners.removeValue(forKey: ObjectIdentifier(listener)) }
        withExtendedLifetime(removed) {}
    }

    func refresh(_ listener: any NetworkListener) {
        state.withLock { $0.refreshing.append(ObjectIdentifier(listener)) }
        wake()
    }

    /// Ends the thread, which closes the socket.
    func end() {
        state.withLock { $0.isEnding = true }
        wake()
    }

    private func wake() {
        // It cannot fail for want of room, as the kernel takes a message from a socket at once.
        try? socket.send(NetlinkMessage.request(type: Int(NLMSG_NOOP), flags: NLM_F_ACK, sequence: 1))
    }

    // MARK: The thread

    private func run() {
        var timer = SettleTimer()
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            wait(until: timer.deadline)
            guard readNews(&buffer, &timer) else { return }
            let now = MonotonicClock.now
            let isDue = timer.deadline.map { now >= $0 } ?? false
            let (changed, refreshed) = state.withLock { state -> ([any NetworkListener], [any NetworkListener]) in
                state.counts.wakeUps += 1
                defer { (state.new, state.refreshing) = ([], []) }
                let changed = isDue ? Array(state.listeners.values) : state.new.compactMap { state.listeners[$0] }
                return (changed, state.refreshing.compactMap { state.listeners[$0] })
            }
            if isDue { timer.reset() }
            guard !state.withLock({ $0.isEnding }) else { return }
            if !changed.isEmpty || !refreshed.isEmpty, !tell(changed, refreshed) { timer.noteFailure(at: now) }
        }
    }

    /// Whether the system has told what the network is like.
    private func tell(_ changed: [any NetworkListener], _ refreshed: [any NetworkListener]) -> Bool {
        guard let finder = try? PathFinder(linkFolder: settings.linkFolder) else { return false }
        for listener in changed { listener.networkChanged(finder) }
        for listener in refreshed { listener.refresh(finder) }
        return !finder.hasFailed
    }

    private func wait(until deadline: MonotonicTime?) {
        var watched = pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)
        guard let deadline else {
            poll(&watched, 1, -1)
            return
        }
        let now = MonotonicClock.now
        // Rounded up, so that it is due after the wait.
        poll(&watched, 1, deadline > now ? Int32((deadline - now) / 1_000_000) + 1 : 0)
    }

    /// Reads all that has come. Whatever has changed, and whether something is missing: the listeners ask the kernel anew
    /// for what they need.
    ///
    /// - Returns: false if the socket has failed.
    private func readNews(_ buffer: inout [UInt8], _ timer: inout SettleTimer) -> Bool {
        settings.willRead()
        while true {
            switch socket.receive(into: &buffer) {
            case .datagram(let datagram):
                let changes = NetlinkMessage.all(in: datagram).count { $0.isChange }
                guard changes > 0 else { continue }
                timer.note(at: MonotonicClock.now)
                state.withLock { $0.counts.changes += changes }
            case .overrun:
                timer.note(at: MonotonicClock.now)
                state.withLock { $0.counts.overruns += 1 }
            case .nothing: return true
            case .failure: return false
            }
        }
    }
}

extension NetlinkMessage {
    /// Whether it says that the network has changed.
    fileprivate var isChange: Bool {
        switch Int(type) {
        // The acknowledgements.
        case ..<Int(NLMSG_MIN_TYPE): false
        // What a wireless driver has to say, such as that a scan is complete.
        case Int(RTM_NEWLINK): attributes(after: MemoryLayout<ifinfomsg>.size)[Int(IFLA_WIRELESS)] == nil
        // Copies of routes that the kernel makes for single hosts.
        case Int(RTM_NEWROUTE), Int(RTM_DELROUTE):
            (payload.integer(at: 8, as: UInt32.self) ?? 0) & UInt32(RTM_F_CLONED) == 0
        default: true
        }
    }
}
