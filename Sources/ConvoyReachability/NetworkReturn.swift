import ConvoySupport
import Foundation

/// A service with which any number of operations wait for a route, with a single kernel listener per destination.
package final class NetworkReturn: Sendable {
    package static let shared = NetworkReturn(watch: .shared)

    /// A wait, which ends when this object is released.
    package final class Wait: Sendable {
        private let end: @Sendable () -> Void
        fileprivate init(_ end: @escaping @Sendable () -> Void) { self.end = end }
        deinit { end() }
    }

    /// The key for waits that share a listener.
    private struct WaitKey: Hashable {
        let target: NetworkTarget
        let isAfterLoss: Bool
        /// The name to resolve.
        let name: String?
    }

    private struct Group {
        /// A number that distinguishes consecutive groups with the same key.
        let number: Int
        var blocks: [Int: @Sendable () -> Void] = [:]
        /// The closure that ends the listening; nil while listening is starting.
        var end: (@Sendable () -> Void)?
    }

    private struct Groups {
        var all: [WaitKey: Group] = [:]
        var count = 0
    }

    private let watch: NetworkWatch
    private let groups = Locked(Groups())

    init(watch: NetworkWatch) { self.watch = watch }

    /// Calls the block as soon as a route exists, possibly before this returns, and never after the wait has been
    /// released.
    ///
    /// - Parameters:
    ///   - isAfterLoss: Whether an existing route counts only after it has been lost and restored.
    ///   - looksUp: Whether to resolve the name of the target, now and after each network change. A route to one of its
    ///     addresses then counts as well as a route to the network as a whole: the name may be in a system file, or in
    ///     a network without a default route. If false, a name waits for the network as a whole.
    ///   - block: Called on the watching thread. It must return quickly.
    /// - Throws: An error in `NSPOSIXErrorDomain` if listening to the kernel is impossible. The block is then not
    ///   called.
    package func wait(
        for target: NetworkTarget, afterLoss isAfterLoss: Bool = false, lookingUp looksUp: Bool = false,
        _ block: @escaping @Sendable () -> Void
    ) throws -> Wait {
        let waitKey = WaitKey(target: target, isAfterLoss: isAfterLoss, name: looksUp ? target.name : nil)
        let (group, key, isNew) = groups.withLock { groups in
            groups.count += 1
            let key = groups.count
            let isNew = groups.all[waitKey] == nil
            groups.all[waitKey, default: Group(number: key)].blocks[key] = block
            return (groups.all[waitKey]?.number ?? key, key, isNew)
        }
        if isNew { try listen(for: waitKey, group) }
        return Wait { [weak self] in self?.remove(key, of: waitKey, group) }
    }

    /// The number of waits. For tests.
    package var count: Int { groups.withLock { $0.all.values.reduce(0) { $0 + $1.blocks.count } } }

    private func listen(for waitKey: WaitKey, _ number: Int) throws {
        let addresses = waitKey.target.addresses
        let source: any ReachabilitySource =
            waitKey.name.map { DomainSource(name: $0, alternatives: addresses, watch: watch) }
            ?? AddressSource(addresses: addresses, watch: watch)
        let end: @Sendable () -> Void
        do {
            let wasGone = Locked(!waitKey.isAfterLoss)
            end = try source.begin { [weak self] status in
                let isReturn = wasGone.withLock { wasGone in
                    if status == .notReachable { wasGone = true }
                    return wasGone && status.isReachable
                }
                if isReturn { self?.callAll(of: waitKey, number) }
            }
        } catch {
            if waitKey.isAfterLoss {
                let group = takeGroup(of: waitKey, number)
                withExtendedLifetime(group) {}
            } else {
                // Waits that were added in the meantime evaluate the route themselves.
                callAll(of: waitKey, number, except: number)
            }
            throw error
        }
        let isOver = groups.withLock { groups in
            guard groups.all[waitKey]?.number == number else { return true }
            groups.all[waitKey]?.end = end
            return false
        }
        if isOver { end() }
    }

    private func callAll(of waitKey: WaitKey, _ number: Int, except key: Int? = nil) {
        let group = takeGroup(of: waitKey, number)
        group?.end?()
        for (own, block) in group?.blocks ?? [:] where own != key { block() }
    }

    private func takeGroup(of waitKey: WaitKey, _ number: Int) -> Group? {
        groups.withLock { groups in
            groups.all[waitKey]?.number == number ? groups.all.removeValue(forKey: waitKey) : nil
        }
    }

    private func remove(_ key: Int, of waitKey: WaitKey, _ number: Int) {
        let (block, group) = groups.withLock { groups -> ((@Sendable () -> Void)?, Group?) in
            guard groups.all[waitKey]?.number == number else { return (nil, nil) }
            let block = groups.all[waitKey]?.blocks.removeValue(forKey: key)
            // While listening is starting, the first wait ends it.
            let isOver = groups.all[waitKey]?.blocks.isEmpty == true
            return (block, isOver ? groups.all.removeValue(forKey: waitKey) : nil)
        }
        withExtendedLifetime(block) {}
        group?.end?()
    }
}

/// The destination to which a connection needs a route: the address of a host or, because a name cannot be resolved
/// without a network, the network as a whole.
package struct NetworkTarget: Hashable, Sendable {
    let addresses: [HostAddress]

    /// The host, if it is a name.
    let name: String?

    /// Whether the host is an address or a name of this machine, so that the destination is known for certain.
    package let isAddress: Bool

    /// - Parameter host: A name or an address, as in a URL.
    package init(host: String) {
        let known = HostAddress.known(of: host)
        isAddress = known != nil
        name = known == nil ? host : nil
        addresses = known ?? AddressSource.outside
    }

    /// Whether the current route uses a mobile network; false if the kernel does not respond. Blocks only for a few
    /// system calls.
    package var isOverCellular: Bool { (try? PathFinder())?.status(of: addresses) == .reachableViaWWAN }

    /// Whether there is currently no route to the address or, for a name, to the network as a whole; false if the
    /// kernel does not respond. Blocks only for a few system calls.
    package var isOutOfReach: Bool { (try? PathFinder())?.status(of: addresses) == .notReachable }
}
