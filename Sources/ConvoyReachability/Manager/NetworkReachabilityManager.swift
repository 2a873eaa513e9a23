import ConvoySupport
import Foundation

/// Tells whether this machine has a way to the network, to a host or to an address, and when that changes.
///
/// The counterpart of `AFNetworkReachabilityManager`. It asks the kernel where a packet would go, and sends none: what it
/// says is about this machine, not about routers, servers or name servers further on. Use it to tell people why nothing
/// comes, or when to try again; a request that fails says more than a status that says it could succeed.
///
/// The kernel tells it of changes of links, addresses, routes and rules; nothing is polled. A change is reported when the
/// network has been quiet for a tenth of a second, and within a second in any case. All managers share one thread and one
/// socket, which are there while one of them monitors.
///
/// For a change, the handler, the observers and the notification come in this order, each on its queue. After
/// ``stopMonitoring()`` has returned none of them begins any more.
public final class NetworkReachabilityManager: Sendable {
    /// Of the network as a whole: reachable if there is a way to addresses of the public Internet, usually by a default
    /// route.
    public static let shared = NetworkReachabilityManager()

    typealias Observer = @Sendable (NetworkReachabilityManager, NetworkReachabilityStatus, NetworkReachabilityStatus) -> Void

    private typealias Stream = AsyncStream<NetworkReachabilityStatus>.Continuation

    private struct State {
        var status = NetworkReachabilityStatus.unknown
        /// The status that was reported last, in that run. A report is somewhat later than the change.
        var reported = (run: 0, status: NetworkReachabilityStatus.unknown)
        /// Counts the starts and stops, so that what belongs to an earlier one can be told apart.
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

    /// A manager with a source of your own.
    ///
    /// - Parameters:
    ///   - source: what it gets the status from.
    ///   - queue: the queue of the handler; nil is the main queue, as in AFNetworking.
    public init(source: any ReachabilitySource, queue: DispatchQueue? = nil) {
        self.source = source
        handlerQueue = queue
    }

    /// A manager of the network as a whole, like ``shared``.
    ///
    /// - Parameter queue: the queue of the handler; nil is the main queue, as in AFNetworking.
    public convenience init(queue: DispatchQueue? = nil) {
        self.init(source: AddressSource(addresses: AddressSource.outside), queue: queue)
    }

    /// A manager of a host: reachable if there is a way to one of its addresses.
    ///
    /// The system's resolver is asked for them at the start and after each change of the network. As long as it does not
    /// answer, those of its last answer count. Without one the status is not reachable once it has failed, and it is asked
    /// again a few times, in growing intervals up to half a minute.
    ///
    /// - Parameters:
    ///   - domain: a name as in a URL, such as `www.example.com`, or an address.
    ///   - queue: the queue of the handler; nil is the main queue, as in AFNetworking.
    public convenience init(domain: String, queue: DispatchQueue? = nil) {
        self.init(source: DomainSource(name: domain), queue: queue)
    }

    /// A manager of an address. A loopback address is always reachable, as is one of this machine while it has it.
    ///
    /// - Parameters:
    ///   - address: such as `192.0.2.1`, `2001:db8::1` or `fe80::1%eth0`; the manager is nil for anything else.
    ///   - queue: the queue of the handler; nil is the main queue, as in AFNetworking.
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

    /// Begins to monitor, once more if it does already. The first status is reported as a change from
    /// ``NetworkReachabilityStatus/unknown``.
    ///
    /// - Throws: an error in `NSPOSIXErrorDomain` if the system gives no socket or no thread, or the error of the source.
    ///   The manager does not monitor then.
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

    /// Ends to monitor. The status is ``NetworkReachabilityStatus/unknown`` after that, which nobody is told.
    public func stopMonitoring() {
        let end = state.withLock { state in
            state.run += 1
            state.isMonitoring = false
            state.status = .unknown
            return state.end.take()
        }
        end?()
    }

    /// Whether it monitors.
    public var isMonitoring: Bool { state.withLock { $0.isMonitoring } }

    // MARK: The status

    /// Whether there is a way, and over what.
    public var networkReachabilityStatus: NetworkReachabilityStatus { state.withLock { $0.status } }

    /// Whether there is a way. False as well as long as that is not known.
    public var isReachable: Bool { networkReachabilityStatus.isReachable }

    /// Whether the way begins in a mobile network.
    public var isReachableViaWWAN: Bool { networkReachabilityStatus == .reachableViaWWAN }

    /// Whether the way begins in a wireless LAN.
    public var isReachableViaWiFi: Bool { networkReachabilityStatus == .reachableViaWiFi }

    /// Whether the way begins at a cable, or is inside this machine.
    public var isReachableViaWire: Bool { networkReachabilityStatus == .reachableViaWire }

    /// The status in a few words, such as "Not Reachable". In English, as AFNetworking's texts are here.
    public var localizedNetworkReachabilityStatusString: String { networkReachabilityStatus.description }

    /// Is called with the new status after each change, in order, on the queue that the initializer was given. The
    /// counterpart of `setReachabilityStatusChangeBlock:`.
    public var reachabilityStatusChangeHandler: (@Sendable (NetworkReachabilityStatus) -> Void)? {
        get { state.withLock { $0.handler } }
        set {
            let old = state.withLock { state in
                defer { state.handler = newValue }
                return state.handler
            }
            withExtendedLifetime(old) {}
        }
    }

    /// The status now, and each after a change. Ends when the manager is released. To be iterated over once; each reading
    /// of the property makes a new one.
    ///
    /// Who is slower than the changes misses some of them, but never the last.
    public var statuses: AsyncStream<NetworkReachabilityStatus> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: NetworkReachabilityStatus.self, bufferingPolicy: .bufferingNewest(1))
        let key = UUID()
        continuation.onTermination = { [weak self] _ in self?.removeStream(key) }
        // On the queue that reports the changes, so that none of them comes before.
        ownQueue.async { [weak self] in
            guard let self else { return continuation.finish() }
            let status = state.withLock { state in
                state.streams[key] = continuation
                return state.reported.run == state.run ? state.reported.status : .unknown
            }
            // Who has gone meanwhile was not there to be removed.
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
        // The order of the queue is that of the changes: to add to it calls nobody.
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
        // It may have ended since.
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
