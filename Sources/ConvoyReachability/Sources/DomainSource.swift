import ConvoySupport
import Foundation

/// Whether the kernel has a way to one of the addresses of a name.
struct DomainSource: ReachabilitySource {
    let name: String
    /// Addresses a way to which counts as well, and also while nothing is known of the name.
    var alternatives: [HostAddress] = []
    var watch = NetworkWatch.shared
    /// Asks for the addresses, and may block its thread.
    var lookUp: @Sendable (String) -> NameLookup = { NameLookup($0) }
    /// Seconds from a failed lookup to the next, without a change of the network in between. The system hears of name
    /// servers somewhat later than of routes, and nobody tells that it has. After the last one it is not asked again.
    var retryDelays: [TimeInterval] = [1, 3, 9, 27]

    func begin(_ report: @escaping @Sendable (NetworkReachabilityStatus) -> Void) throws -> @Sendable () -> Void {
        if let address = HostAddress(name) {
            return try AddressSource(addresses: [address], watch: watch).begin(report)
        }
        do throws(SystemError) {
            return try watch.add(DomainListener(self, report: report))
        } catch {
            throw error.error(path: nil)
        }
    }
}

/// Has a name looked up after each change of the network, and reports whether there is a way to what was found.
///
/// As long as the lookup goes on, the addresses from before count, so that a change is reported at once also where name
/// servers cannot be reached any more. They also count when nobody answers; a name server that is silent says nothing
/// about the way to the host.
private final class DomainListener: NetworkListener {
    private struct Knowledge {
        var addresses: [HostAddress] = []
        /// Whether anything is known: addresses, or that there are none.
        var isKnown = false
        /// The number of the lookup that was begun last, and of the latest that has ended.
        var begun = 0
        var ended = 0
        var running = 0
        /// Whether the network has changed while as many lookups were running as may.
        var isOutdated = false
        /// How many lookups have failed since the network changed.
        var failures = 0
    }

    /// One that hangs in a network that is gone must not keep one from asking in the new one.
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
        // Without a network the next lookup fails as well, and a network that comes tells so. One without a default route
        // may have name servers of its own.
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
                (state.addresses, state.failures) = (addresses, 0)
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
            // The network may have changed, or another refresh may have called for the same.
            guard let self, state.withLock({ $0.failures == failures && $0.running == 0 }) else { return }
            lookUp()
        }
    }
}
