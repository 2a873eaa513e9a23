import CEpoll
import ConvoySupport
import Foundation

/// The source of a ``NetworkReachabilityManager``'s status: by default the kernel, or a custom source, for example a
/// connection manager or a test.
///
/// The counterpart of `SCNetworkReachabilityRef`.
public protocol ReachabilitySource: Sendable {
    /// Starts reporting the status: the current status soon, and then the new status after each change.
    ///
    /// Several managers can use the same source, each with its own `report`.
    ///
    /// - Parameter report: A closure to call serially, on any thread. It returns immediately. Repeated equal statuses
    ///   are ignored.
    /// - Returns: A closure that ends the reports. It is called once, on any thread. Subsequent reports are ignored.
    /// - Throws: An error if the source cannot start.
    func begin(_ report: @escaping @Sendable (NetworkReachabilityStatus) -> Void) throws -> @Sendable () -> Void
}

/// A source that reports whether the kernel has a route to one of several addresses.
struct AddressSource: ReachabilitySource {
    let addresses: [HostAddress]
    var watch = NetworkWatch.shared

    /// Addresses that represent the network as a whole: those of the name server `a.root-servers.net`, which are
    /// outside every organization's network. The route to them is the default route, regardless of which tables and
    /// rules define it. No packet is sent to them.
    static let outside = ["198.41.0.4", "2001:503:ba3e::2:30"].compactMap { HostAddress($0) }

    func begin(_ report: @escaping @Sendable (NetworkReachabilityStatus) -> Void) throws -> @Sendable () -> Void {
        do throws(SystemError) {
            return try watch.add(AddressListener(addresses: addresses, report: report))
        } catch {
            throw error.error(path: nil)
        }
    }
}

private final class AddressListener: NetworkListener {
    private let addresses: [HostAddress]
    private let report: @Sendable (NetworkReachabilityStatus) -> Void

    init(addresses: [HostAddress], report: @escaping @Sendable (NetworkReachabilityStatus) -> Void) {
        self.addresses = addresses
        self.report = report
    }

    func networkChanged(_ finder: PathFinder) {
        if let status = finder.status(of: addresses) { report(status) }
    }

    func refresh(_ finder: PathFinder) { networkChanged(finder) }
}

/// A source that reports whether the kernel has a route to one of the addresses of a name.
struct DomainSource: ReachabilitySource {
    let name: String
    /// Additional addresses of the host, which are also used while the name has not been resolved.
    var alternatives: [HostAddress] = []
    var watch = NetworkWatch.shared
    /// The closure that resolves the name. It may block.
    var lookUp: @Sendable (String) -> NameLookup = { NameLookup($0) }
    /// The delays after failed lookups, in seconds, if the network does not change. Retries are necessary because the
    /// system configures name servers somewhat later than routes, without a notification. After the last delay, the
    /// lookup is not retried.
    var retryDelays: [TimeInterval] = [1, 3, 9, 27]

    func begin(_ report: @escaping @Sendable (NetworkReachabilityStatus) -> Void) throws -> @Sendable () -> Void {
        if let addresses = HostAddress.known(of: name) {
            return try AddressSource(addresses: addresses, watch: watch).begin(report)
        }
        do throws(SystemError) {
            return try watch.add(DomainListener(self, report: report))
        } catch {
            throw error.error(path: nil)
        }
    }
}

/// A listener that resolves a name after each network change, and reports whether there is a route to its addresses.
///
/// During a lookup the previous addresses are used, so that a change is reported immediately even if the name servers
/// are now unreachable. They are also used after a timeout, because an unresponsive name server does not mean that the
/// host is unreachable.
private final class DomainListener: NetworkListener {
    private struct Knowledge {
        var addresses: [HostAddress] = []
        /// Whether a lookup has succeeded, with or without addresses.
        var isKnown = false
        /// The numbers of the last started lookup and of the latest completed one.
        var begun = 0
        var ended = 0
        var running = 0
        /// Whether the network changed while the maximum number of lookups was running.
        var isOutdated = false
        /// The number of failed lookups since the last network change.
        var failures = 0
    }

    /// The maximum number of concurrent lookups. It is more than one, because a lookup that hangs in the old network
    /// must not delay a lookup in the new one.
    private static let mostLookups = 2

    private let source: DomainSource
    private let report: @Sendable (NetworkReachabilityStatus) -> Void
    private let state = Locked(Knowledge())

    init(_ source: DomainSource, report: @escaping @Sendable (NetworkReachabilityStatus) -> Void) {
        self.source = source
        self.report = report
    }

    func networkChanged(_ finder: PathFinder) {
        state.withLock { $0.failures = 0 }
        refresh(finder)
        lookUp()
    }

    func refresh(_ finder: PathFinder) {
        let (addresses, isKnown, failures) = state.withLock { ($0.addresses, $0.isKnown, $0.failures) }
        let alternatives = source.alternatives
        if isKnown || !alternatives.isEmpty, let status = finder.status(of: alternatives + addresses) { report(status) }
        // Without a network the next lookup would fail as well, and a new network triggers a lookup anyway. A network
        // without a default route may still have name servers.
        if failures > 0, addresses.isEmpty,
            !alternatives.isEmpty || finder.status(of: AddressSource.outside)?.isReachable == true
        {
            retry(after: failures)
        }
    }

    private func lookUp() {
        let number = state.withLock { state -> Int? in
            guard state.running < Self.mostLookups else {
                state.isOutdated = true
                return nil
            }
            state.running += 1
            state.begun += 1
            return state.begun
        }
        guard let number else { return }
        BlockingWorkers.shared.perform { [weak self, lookUp = source.lookUp, name = source.name] in
            let result = lookUp(name)
            self?.take(result, of: number)
        }
    }

    private func take(_ result: NameLookup, of number: Int) {
        let isOutdated = state.withLock { state in
            state.running -= 1
            defer { state.isOutdated = false }
            guard number > state.ended else { return state.isOutdated }
            state.ended = number
            switch result {
            case .addresses(let addresses):
                state.addresses = addresses
                state.failures = 0
            case .doesNotExist:
                state.addresses = []
            case .failure:
                state.failures += 1
            }
            state.isKnown = true
            return state.isOutdated
        }
        source.watch.refresh(self)
        if isOutdated { lookUp() }
    }

    private func retry(after failures: Int) {
        guard failures <= source.retryDelays.count else { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + source.retryDelays[failures - 1]) { [weak self] in
            // The network may have changed, or another refresh may have started a lookup.
            guard let self, state.withLock({ $0.failures == failures && $0.running == 0 }) else { return }
            lookUp()
        }
    }
}

/// The result of a DNS lookup.
enum NameLookup: Equatable, Sendable {
    case addresses([HostAddress])
    /// The name does not exist.
    case doesNotExist
    /// The lookup failed.
    case failure

    /// Resolves a name. Blocks, possibly for many seconds.
    init(_ name: String) {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(name, nil, &hints, &list)
        guard code == 0 else {
            self = code == EAI_NONAME ? .doesNotExist : .failure
            return
        }
        defer { freeaddrinfo(list) }
        var addresses: [HostAddress] = []
        var next = list
        while let entry = next {
            if let address = entry.pointee.ai_addr.flatMap({ HostAddress($0) }) { addresses.append(address) }
            next = entry.pointee.ai_next
        }
        self = addresses.isEmpty ? .doesNotExist : .addresses(addresses)
    }
}
