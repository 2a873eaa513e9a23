import ConvoySupport

/// Whether the kernel has a way to one of some addresses.
struct AddressSource: ReachabilitySource {
    let addresses: [HostAddress]
    var watch = NetworkWatch.shared

    /// Addresses that stand for the network as a whole: those of the name server `a.root-servers.net`, which are not in any
    /// network of an organisation. The way to them is the default route, in whichever table it is and however it is put
    /// together. Nothing is sent to them.
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
