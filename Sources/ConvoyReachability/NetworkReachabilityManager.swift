import ConvoySupport
import Foundation

/// A monitor of whether this machine has a route to the network, to a host or to an address.
///
/// The counterpart of `AFNetworkReachabilityManager`. The manager queries the kernel for the route of a packet without
/// sending one. The status therefore describes this machine, and not the routers, servers or name servers beyond it.
/// Use it to explain a failure or to decide when to retry, but not to decide whether to send a request.
///
/// The kernel reports changes of links, addresses, routes and rules, so the manager does not poll. A change is reported
/// as soon as the network has been quiet for a tenth of a second, and always within a second. All managers share one
/// thread and one socket, which exist while any of them is monitoring.
///
/// For each change, the manager calls the handler, calls the observers and posts the notification, in this order, each
/// on its own queue. No call starts after ``stopMonitoring()`` has returned.
public final class NetworkReachabilityManager: Sendable {
    /// The shared manager, which monitors the network as a whole. The network is reachable if there is a route to the
    /// public Internet, usually a default route.
    public static let shared = NetworkReachabilityManager()

    typealias Observer = @Sendable (NetworkReachabilityManager, NetworkReachabilityStatus, NetworkReachabilityStatus) -> Void

    private typealias Stream = AsyncStream<NetworkReachabilityStatus>.Continuation

    private struct State {
        var status = NetworkReachabilityStatus.unknown
        /// The last reported status and its run. Reports can lag behind changes.
        var reported = (run: 0, status: NetworkReachabilityStatus.unknown)
        /// The number of starts and stops, which identifies events of an earlier run.
        var run = 0
        var isMonitoring = false
        var end: (@Sendable () -> Void)?
        var handler: (@Sendable (NetworkReachabilityStatus) -> Void)?
        var observers: [UUID: (queue: DispatchQueue?, observer: Observer)] = [:]
        var streams: [UUID: Stream] = [:]
    }

    private let source: any ReachabilitySource
    private let handlerQueue: DispatchQueue?
    private let ownQueue = DispatchQueue(label: "Convoy.Reachability")
    private let state = Locked(State())

    /// Creates a manager with a custom source.
    ///
    /// - Parameters:
    ///   - source: The source of the status.
    ///   - queue: The queue for the handler; nil for the main queue, as in AFNetworking.
    public init(source: any ReachabilitySource, queue: DispatchQueue? = nil) {
        self.source = source
        handlerQueue = queue
    }

    /// Creates a manager for the network as a whole, like ``shared``.
    ///
    /// - Parameter queue: The queue for the handler; nil for the main queue, as in AFNetworking.
    public convenience init(queue: DispatchQueue? = nil) {
        self.init(source: AddressSource(addresses: AddressSource.outside), queue: queue)
    }

    /// Creates a manager for a host, which is reachable if there is a route to one of its addresses.
    ///
    /// The name is resolved at the start and after each network change. While the resolver does not respond, the
    /// addresses from the last lookup are used. If no addresses are known, the status becomes not reachable after the
    /// lookup has failed, and the lookup is retried several times, at increasing intervals of up to half a minute.
    ///
    /// - Parameters:
    ///   - domain: A name as in a URL, for example `www.example.com`, or an address.
    ///   - queue: The queue for the handler; nil for the main queue, as in AFNetworking.
    public convenience init(domain: String, queue: DispatchQueue? = nil) {
        self.init(source: DomainSource(name: domain), queue: queue)
    }

    /// Creates a manager for an address. Loopback addresses, and the current addresses of this machine, are always
    /// reachable.
    ///
    /// - Parameters:
    ///   - address: An address, for example `192.0.2.1`, `2001:db8::1` or `fe80::1%eth0`. For any other string, the
    ///     manager is nil.
    ///   - queue: The queue for the handler; nil for the main queue, as in AFNetworking.
    public convenience init?(address: String, queue: DispatchQueue? = nil) {
        guard let address = HostAddress(address) else { return nil }
        self.init(source: AddressSource(addresses: [address]), queue: queue)
    }

    deinit {
        let (end, streams) = state.withLock { ($0.end.take(), $0.streams) }
        end?()
        for stream in streams.values { stream.finish() }
    }

    // MARK: Monitoring

    /// Starts monitoring, or restarts it if it is running. The first status is reported as a change from
    /// ``NetworkReachabilityStatus/unknown``.
    ///
    /// - Throws: An error in `NSPOSIXErrorDomain` if the system provides no socket or thread, or the error of the
    ///   source. The manager is then not monitoring.
    public func startMonitoring() throws {
        stopMonitoring()
        let run = state.withLock { state in
            state.isMonitoring = true
            state.run += 1
            return state.run
        }
        do {
            let end = try source.begin { [weak self] status in self?.take(status, run: run) }
            let isCurrent = state.withLock { state in
                if state.run == run { state.end = end }
                return state.run == run
            }
            if !isCurrent { end() }
        } catch {
            state.withLock { if $0.run == run { $0.isMonitoring = false } }
            throw error
        }
    }

    /// Stops monitoring. Sets the status to ``NetworkReachabilityStatus/unknown`` without reporting it.
    public func stopMonitoring() {
        let end = state.withLock { state in
            state.run += 1
            state.isMonitoring = false
            state.status = .unknown
            return state.end.take()
        }
        end?()
    }

    /// Whether the manager is monitoring.
    public var isMonitoring: Bool { state.withLock { $0.isMonitoring } }

    // MARK: The status

    /// Whether a route exists, and the kind of its first link.
    public var networkReachabilityStatus: NetworkReachabilityStatus { state.withLock { $0.status } }

    /// Whether a route exists; false if this is unknown.
    public var isReachable: Bool { networkReachabilityStatus.isReachable }

    /// Whether the first link of the route is mobile.
    public var isReachableViaWWAN: Bool { networkReachabilityStatus == .reachableViaWWAN }

    /// Whether the first link of the route is a wireless LAN.
    public var isReachableViaWiFi: Bool { networkReachabilityStatus == .reachableViaWiFi }

    /// Whether the first link of the route is wired or virtual, or the route is inside this machine.
    public var isReachableViaWire: Bool { networkReachabilityStatus == .reachableViaWire }

    /// The status in English, in AFNetworking's words, for example "Not Reachable".
    public var localizedNetworkReachabilityStatusString: String { networkReachabilityStatus.description }

    /// Called with the new status after each change, in order, on the queue passed to the initializer. The counterpart
    /// of `setReachabilityStatusChangeBlock:`.
    public var reachabilityStatusChangeHandler: (@Sendable (NetworkReachabilityStatus) -> Void)? {
        get { state.withLock { $0.handler } }
        set { state.replace(\.handler, by: newValue) }
    }

    /// The current status, followed by the status after each change. The sequence ends when the manager is released.
    /// Iterate over it only once; each access creates a new sequence.
    ///
    /// A slow reader may miss intermediate changes, but never the last one.
    public var statuses: AsyncStream<NetworkReachabilityStatus> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: NetworkReachabilityStatus.self, bufferingPolicy: .bufferingNewest(1))
        let key = UUID()
        continuation.onTermination = { [weak self] _ in self?.removeStream(key) }
        // Use the queue that reports changes, so that no change precedes the current status.
        ownQueue.async { [weak self] in
            guard let self else { return continuation.finish() }
            let status = state.withLock { state in
                state.streams[key] = continuation
                return state.reported.run == state.run ? state.reported.status : .unknown
            }
            // The stream may have ended before it was added. If so, remove it.
            if case .terminated = continuation.yield(status) { removeStream(key) }
        }
        return stream
    }

    private func removeStream(_ key: UUID) {
        let old = state.withLock { $0.streams.removeValue(forKey: key) }
        withExtendedLifetime(old) {}
    }

    // MARK: Changes

    private func take(_ status: NetworkReachabilityStatus, run: Int) {
        // Enqueue under the lock, so that the queue preserves the order of the changes. Enqueueing calls no user code.
        state.withLock { state in
            guard state.run == run, state.status != status else { return }
            let old = state.status
            state.status = status
            ownQueue.async { [weak self] in self?.report(old, status, run: run) }
        }
    }

    private func isCurrent(_ run: Int) -> Bool { state.withLock { $0.run == run } }

    private func report(_ old: NetworkReachabilityStatus, _ new: NetworkReachabilityStatus, run: Int) {
        let listening = state.withLock { state -> ([UUID: (queue: DispatchQueue?, observer: Observer)], [Stream])? in
            guard state.run == run else { return nil }
            state.reported = (run, new)
            return (state.observers, Array(state.streams.values))
        }
        guard let (observers, streams) = listening else { return }
        (handlerQueue ?? .main).async { [weak self] in
            guard let self, isCurrent(run) else { return }
            reachabilityStatusChangeHandler?(new)
        }
        for (key, (queue, _)) in observers {
            guard let queue else {
                call(key, old, new, run: run)
                continue
            }
            queue.async { [weak self] in self?.call(key, old, new, run: run) }
        }
        for stream in streams { stream.yield(new) }
        guard isCurrent(run) else { return }
        NotificationCenter.default.post(
            name: .networkingReachabilityDidChange, object: self, userInfo: [Self.statusUserInfoKey: new.rawValue])
    }

    private func call(_ key: UUID, _ old: NetworkReachabilityStatus, _ new: NetworkReachabilityStatus, run: Int) {
        // Do not call the handler if the observation has ended in the meantime.
        let observer = state.withLock { $0.run == run ? $0.observers[key]?.observer : nil }
        observer?(self, old, new)
    }

    func addObserver(queue: DispatchQueue?, _ observer: @escaping Observer) -> ReachabilityObservation {
        let key = UUID()
        state.withLock { $0.observers[key] = (queue, observer) }
        return ReachabilityObservation { [weak self] in
            let old = self?.state.withLock { $0.observers.removeValue(forKey: key) }
            withExtendedLifetime(old) {}
        }
    }
}

extension Notification.Name {
    /// Posted when the status of a ``NetworkReachabilityManager`` has changed. `object` is the manager, and `userInfo`
    /// contains the `rawValue` of the new status, an `Int`, under ``NetworkReachabilityManager/statusUserInfoKey``.
    /// Posted to `NotificationCenter.default` on the manager's own serial queue, for each change, in order.
    ///
    /// The raw value is the same as in AFNetworking.
    public static let networkingReachabilityDidChange = Notification.Name("com.alamofire.networking.reachability.change")
}

extension NetworkReachabilityManager {
    /// The key for the status in the notification: AFNetworking's `AFNetworkingReachabilityNotificationStatusItem`.
    public static let statusUserInfoKey = "AFNetworkingReachabilityNotificationStatusItem"
}

/// An observation of a ``NetworkReachabilityManager``, which ends when this object is released. The counterpart of
/// `NSKeyValueObservation`.
public final class ReachabilityObservation: Sendable {
    private let end: Once<Void>

    init(_ end: @escaping @Sendable () -> Void) { self.end = Once { end() } }

    deinit { invalidate() }

    /// Ends the observation. No call of the handler starts after this has returned; a call that is already running
    /// continues.
    public func invalidate() { end.set(()) }
}

/// A change to an observed value, like `NSKeyValueObservedChange`.
public struct ReachabilityChange<Value: Sendable>: Sendable {
    /// The value before the change.
    public let oldValue: Value
    /// The value after the change. The network may have changed again in the meantime.
    public let newValue: Value
}

extension NetworkReachabilityManager {
    /// The values that can be observed.
    public struct ObservedValue<Value: Sendable & Equatable>: Sendable {
        let read: @Sendable (NetworkReachabilityStatus) -> Value
    }

    /// Observes a value of the manager, like KVO on Apple platforms.
    ///
    /// The handler is called serially for all subsequent changes, in order, on the given queue or on a serial queue of
    /// the manager.
    ///
    /// - Returns: The observation, which ends when it is released. Keep it, for example in a property.
    public func observe<Value: Sendable & Equatable>(
        _ value: ObservedValue<Value>, on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (NetworkReachabilityManager, ReachabilityChange<Value>) -> Void
    ) -> ReachabilityObservation {
        addObserver(queue: queue) { manager, old, new in
            let (old, new) = (value.read(old), value.read(new))
            if old != new { handler(manager, ReachabilityChange(oldValue: old, newValue: new)) }
        }
    }
}

extension NetworkReachabilityManager.ObservedValue where Value == NetworkReachabilityStatus {
    /// The reachability status; its observers are notified of every change.
    public static var status: Self { Self { $0 } }
}

extension NetworkReachabilityManager.ObservedValue where Value == Bool {
    /// Whether a route exists.
    public static var isReachable: Self { Self { $0.isReachable } }
    /// Whether the first link of the route is mobile.
    public static var isReachableViaWWAN: Self { Self { $0 == .reachableViaWWAN } }
    /// Whether the first link of the route is a wireless LAN.
    public static var isReachableViaWiFi: Self { Self { $0 == .reachableViaWiFi } }
    /// Whether the first link of the route is wired or virtual, or the route is inside this machine.
    public static var isReachableViaWire: Self { Self { $0 == .reachableViaWire } }
}

/// The existence of a route to the network, and the kind of its first link.
///
/// The counterpart of `AFNetworkReachabilityStatus`, with the same raw values. In AFNetworking, WiFi includes all links
/// that are not mobile; here, wired links have their own case.
public enum NetworkReachabilityStatus: Int, Sendable, Hashable, CaseIterable {
    /// The status is unknown: the manager is not monitoring, or has not received the first status.
    case unknown = -1
    /// No route exists.
    case notReachable = 0
    /// A route exists over a mobile network, through a modem.
    case reachableViaWWAN = 1
    /// A route exists over a wireless LAN.
    case reachableViaWiFi = 2
    /// A route exists over any other link: a cable, a link between virtual machines, a tunnel, or inside this machine.
    case reachableViaWire = 3

    /// Whether any route exists.
    public var isReachable: Bool {
        switch self {
        case .unknown, .notReachable: false
        case .reachableViaWWAN, .reachableViaWiFi, .reachableViaWire: true
        }
    }
}

extension NetworkReachabilityStatus: CustomStringConvertible {
    /// The status in English, for example "Reachable via WiFi". The strings are those of
    /// `AFStringFromNetworkReachabilityStatus`.
    public var description: String {
        switch self {
        case .unknown: "Unknown"
        case .notReachable: "Not Reachable"
        case .reachableViaWWAN: "Reachable via WWAN"
        case .reachableViaWiFi: "Reachable via WiFi"
        case .reachableViaWire: "Reachable via wire"
        }
    }
}
