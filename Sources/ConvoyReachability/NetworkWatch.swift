import CEpoll
import ConvoySupport
import Foundation

/// A service that notifies listeners of network changes. All listeners share one thread and one socket, which exist
/// while listeners are registered.
final class NetworkWatch: Sendable {
    static let shared = NetworkWatch()

    private struct Use {
        var session: WatchSession?
        /// The number of listeners in the session.
        var count = 0
    }

    private let settings: WatchSettings
    private let state = Locked(Use())

    init(settings: WatchSettings = WatchSettings()) { self.settings = settings }

    /// Adds a listener, which is called soon and after each network change. It is retained until the returned closure
    /// is called, which must happen once.
    func add(_ listener: any NetworkListener) throws(SystemError) -> @Sendable () -> Void {
        let session = try state.withLock { state throws(SystemError) -> WatchSession in
            let session = if let session = state.session { session } else { try WatchSession.start(settings) }
            state.session = session
            state.count += 1
            session.add(listener)
            return session
        }
        return { [self] in
            session.remove(listener)
            state.withLock { state in
                state.count -= 1
                guard state.count == 0 else { return }
                state.session?.end()
                state.session = nil
            }
        }
    }

    /// Schedules a call of ``NetworkListener/refresh(_:)``.
    func refresh(_ listener: any NetworkListener) { state.withLock { $0.session }?.refresh(listener) }

    /// The counters of the session; all zero without listeners. For tests.
    var counts: WatchSession.Counts { state.withLock { $0.session }?.counts ?? WatchSession.Counts() }
}

/// A receiver of network changes. Its methods are called serially on the watching thread.
protocol NetworkListener: AnyObject, Sendable {
    /// Called after a network change, and for a new listener. The finder is valid only during the call.
    func networkChanged(_ finder: PathFinder)

    /// Called after ``NetworkWatch/refresh(_:)``.
    func refresh(_ finder: PathFinder)
}

/// The settings of the watching thread, which tests can change.
struct WatchSettings: Sendable {
    /// The folder that describes all links.
    var linkFolder = LinkKind.systemFolder
    /// The size of the receive buffer, in bytes; nil for the system's default. The kernel rounds it up to a few
    /// kilobytes.
    var receiveBufferSize: Int32?
    /// Called on the watching thread before it reads messages, so that a test can delay it.
    var willRead: @Sendable () -> Void = {}
}

/// A timer that determines when to evaluate a changing network: when it is quiet, so that transient states are not
/// reported, or after a maximum delay, because some networks are never quiet.
struct SettleTimer {
    /// The time without a change after which the network is quiet, in nanoseconds.
    static let quiet: UInt64 = 100_000_000
    /// The maximum delay after the first change, in nanoseconds.
    static let longest: UInt64 = 700_000_000

    private var first: MonotonicTime?
    private var last: MonotonicTime = 0
    private var retry: MonotonicTime?

    /// Records a change.
    mutating func note(at now: MonotonicTime) {
        if first == nil { first = now }
        last = now
    }

    /// Records a failed evaluation, and schedules another one.
    mutating func noteFailure(at now: MonotonicTime) { retry = now + 1_000_000_000 }

    /// The time at which to evaluate the network; nil if nothing has changed.
    var deadline: MonotonicTime? {
        let settled = first.map { min(last + Self.quiet, $0 + Self.longest) }
        return [settled, retry].compactMap { $0 }.min()
    }

    /// Records that the network is being evaluated.
    mutating func reset() {
        first = nil
        retry = nil
    }
}

/// The thread and the socket that receive the kernel's notifications about links, addresses, routes and rules.
///
/// The thread blocks in the kernel while nothing changes. The socket is its only descriptor: other threads wake it by
/// sending the kernel a message that causes only an acknowledgement.
final class WatchSession: Sendable {
    /// Counters of the thread, for tests.
    struct Counts: Equatable {
        /// The number of times the thread's wait has returned.
        var wakeUps = 0
        /// The number of times messages were lost.
        var overruns = 0
        /// The number of messages read that report a change.
        var changes = 0
    }

    private struct Members {
        /// The listeners, and the subsets that are new or have requested a refresh.
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

    /// Removes a listener. No call starts after this, but one may still be running.
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
        // Sending cannot fail because of a full buffer: the kernel processes messages synchronously.
        try? socket.send(NetlinkMessage.request(type: Int(NLMSG_NOOP), flags: NLM_F_ACK, sequence: 1))
    }

    // MARK: The thread

    private func run() {
        var timer = SettleTimer()
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            wait(until: timer.deadline)
            guard readMessages(&buffer, &timer) else { return }
            let now = MonotonicClock.now
            let isDue = timer.deadline.map { now >= $0 } ?? false
            let (changed, refreshed) = state.withLock { state -> ([any NetworkListener], [any NetworkListener]) in
                state.counts.wakeUps += 1
                defer {
                    state.new = []
                    state.refreshing = []
                }
                let changed = isDue ? Array(state.listeners.values) : state.new.compactMap { state.listeners[$0] }
                return (changed, state.refreshing.compactMap { state.listeners[$0] })
            }
            if isDue { timer.reset() }
            guard !state.withLock({ $0.isEnding }) else { return }
            if !changed.isEmpty || !refreshed.isEmpty, !notify(changed, refreshed) { timer.noteFailure(at: now) }
        }
    }

    /// Calls the listeners. Returns false if the kernel did not respond to a request.
    private func notify(_ changed: [any NetworkListener], _ refreshed: [any NetworkListener]) -> Bool {
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
        // Round up, so that the deadline has passed after the wait.
        poll(&watched, 1, deadline > now ? Int32((deadline - now) / 1_000_000) + 1 : 0)
    }

    /// Reads all waiting messages. Their contents, and any losses, do not matter, because the listeners query the
    /// kernel again.
    ///
    /// - Returns: False if the socket has failed.
    private func readMessages(_ buffer: inout [UInt8], _ timer: inout SettleTimer) -> Bool {
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
    /// Whether the message reports a network change.
    fileprivate var isChange: Bool {
        switch Int(type) {
        // Acknowledgements and other control messages do not report changes.
        case ..<Int(NLMSG_MIN_TYPE): false
        // Ignore events of wireless drivers, for example a completed scan.
        case Int(RTM_NEWLINK): attributes(after: MemoryLayout<ifinfomsg>.size)[Int(IFLA_WIRELESS)] == nil
        // Ignore cloned routes, which are cached for single hosts.
        case Int(RTM_NEWROUTE), Int(RTM_DELROUTE):
            (payload.integer(at: 8, as: UInt32.self) ?? 0) & UInt32(RTM_F_CLONED) == 0
        default: true
        }
    }
}

/// The kind of a network link.
enum LinkKind: Hashable {
    case wire, wifi, mobile

    /// The folder in which Linux describes links.
    static let systemFolder = "/sys/class/net"

    /// Determines the kind of a link from files alone.
    ///
    /// - Parameters:
    ///   - name: The name of the link, for example `wlan0`.
    ///   - folder: The folder that describes all links, for example `/sys/class/net`. If the link is missing there, as
    ///     in a container with another namespace's files, the kind is determined from the name.
    init(ofLink name: String, in folder: String) {
        self = Self.kind(of: name, LinkFiles(folder: folder), depth: 0)
    }

    /// The maximum depth of stacked links, for example a VLAN on a bridge on a bond. The limit also ends cycles.
    private static let deepest = 8

    private static func kind(of name: String, _ files: LinkFiles, depth: Int) -> LinkKind {
        guard files.exists(name) else { return kind(byName: name) }
        if files.exists(name, "wireless") || files.exists(name, "phy80211") { return .wifi }
        switch files.deviceType(name) {
        case "wlan": return .wifi
        case "wwan": return .mobile
        default: break
        }
        // A raw IP link, which has no link layer, belongs to a modem.
        if files.number(name, "type") == HardwareType.rawIP || hasMobileName(name) { return .mobile }
        if files.number(name, "type") == HardwareType.ppp { return isOfModem(name, files) ? .mobile : .wire }
        return depth < deepest ? kindBelow(name, files, depth: depth) : .wire
    }

    /// Returns the kind of the lower links of a VLAN, bridge or bond. If there are several kinds, wired takes
    /// precedence: a bridge of an access point also has a wired link.
    private static func kindBelow(_ name: String, _ files: LinkFiles, depth: Int) -> LinkKind {
        if let active = files.text(name, "bonding/active_slave"), !active.isEmpty {
            return kind(of: active, files, depth: depth + 1)
        }
        let kinds = Set(files.linksBelow(name).map { kind(of: $0, files, depth: depth + 1) })
        if kinds.isEmpty || kinds.contains(.wire) { return .wire }
        return kinds.contains(.wifi) ? .wifi : .mobile
    }

    /// Returns whether a PPP link belongs to a modem rather than, for example, to PPPoE. The link itself does not
    /// indicate this, so if the system has a modem, the link is attributed to it.
    private static func isOfModem(_ name: String, _ files: LinkFiles) -> Bool {
        if let driver = files.driver(name) { return modemDrivers.contains(driver) }
        return files.hasModems || files.allLinks().contains { files.deviceType($0) == "wwan" }
    }

    private static let modemDrivers: Set = ["cdc_acm", "option", "qcserial", "sierra", "usb_wwan"]

    private static func kind(byName name: String) -> LinkKind {
        if hasMobileName(name) { return .mobile }
        // Both systemd's and the kernel's names for wireless links begin with this prefix.
        return name.hasPrefix("wl") ? .wifi : .wire
    }

    private static func hasMobileName(_ name: String) -> Bool {
        name.hasPrefix("ww") || name.hasPrefix("rmnet")
    }

    /// The `ARPHRD_…` constants in `<linux/if_arp.h>`.
    private enum HardwareType {
        static let ppp = 512
        static let rawIP = 519
    }
}

/// A reader of the files that describe links, in a folder like `/sys/class/net`.
struct LinkFiles {
    let folder: String

    /// Returns whether a file exists. This includes a dangling symbolic link.
    func exists(_ link: String, _ file: String = "") -> Bool {
        guard let path = path(link, file) else { return false }
        var information = stat()
        return lstat(path, &information) == 0
    }

    /// Returns the text of a single-line file, without the line feed.
    func text(_ link: String, _ file: String) -> String? {
        guard let path = path(link, file), let data = FileManager.default.contents(atPath: path) else { return nil }
        return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    func number(_ link: String, _ file: String) -> Int? { text(link, file).flatMap { Int($0) } }

    /// Returns the device type set by the driver, for example `wlan`, `wwan`, `bridge` or `vlan`.
    func deviceType(_ link: String) -> String? {
        let lines = text(link, "uevent")?.split(separator: "\n") ?? []
        return lines.first { $0.hasPrefix("DEVTYPE=") }.map { String($0.dropFirst("DEVTYPE=".count)) }
    }

    /// Returns the name of the device's driver.
    func driver(_ link: String) -> String? {
        guard let path = path(link, "device/driver") else { return nil }
        let target = try? FileManager.default.destinationOfSymbolicLink(atPath: path)
        return target?.split(separator: "/").last.map { String($0) }
    }

    /// Returns the lower links of a virtual one.
    func linksBelow(_ link: String) -> [String] {
        entries(path(link, "")).filter { $0.hasPrefix("lower_") }.map { String($0.dropFirst("lower_".count)) }
    }

    func allLinks() -> [String] { entries(folder) }

    /// Whether the system has modems, which the kernel describes in a folder next to that of the links.
    var hasModems: Bool {
        !entries((folder as NSString).deletingLastPathComponent + "/wwan").isEmpty
    }

    private func entries(_ path: String?) -> [String] {
        path.flatMap { try? FileManager.default.contentsOfDirectory(atPath: $0) }?.sorted() ?? []
    }

    /// Returns the path of a file; nil if the name of the link would leave the folder.
    private func path(_ link: String, _ file: String) -> String? {
        guard !link.isEmpty, !link.utf8.contains(UInt8(ascii: "/")), link != ".", link != ".." else { return nil }
        return file.isEmpty ? "\(folder)/\(link)" : "\(folder)/\(link)/\(file)"
    }
}
