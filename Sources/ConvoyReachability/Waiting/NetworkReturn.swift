import ConvoySupport
import Foundation

/// Tells many at once that there is a way again. However many wait for the same, one listens to the kernel for them.
package final class NetworkReturn: Sendable {
    package static let shared = NetworkReturn(watch: .shared)

    /// A wait, which lasts as long as this object.
    package final class Wait: Sendable {
        private let end: @Sendable () -> Void
        fileprivate init(_ end: @escaping @Sendable () -> Void) { self.end = end }
        deinit { end() }
    }

    /// What some wait for together.
    private struct Aim: Hashable {
        let target: NetworkTarget
        let isAfterLoss: Bool
        /// The name that is looked up.
        let name: String?
    }

    private struct Group {
        /// Tells the groups of one aim apart that come after each other.
        let number: Int
        var blocks: [Int: @Sendable () -> Void] = [:]
        /// Ends the listening; nil while it is about to begin.
        var end: (@Sendable () -> Void)?
    }

    private struct Groups {
        var all: [Aim: Group] = [:]
        var count = 0
    }

    private let watch: NetworkWatch
    private let groups = Locked(Groups())

    init(watch: NetworkWatch) { self.watch = watch }

    /// Calls the block once there is a way, which may be before this returns; not after the wait is released.
    ///
    /// - Parameters:
    ///   - isAfterLoss: whether a way that there is does not count before it has gone and come back.
    ///   - looksUp: whether the name of a target is looked up, now and after each change of the network, and a way to one
    ///     of its addresses counts as well as one to the network as a whole: it may be in a file of the system, or in a
    ///     network that has no default route. Without an address, the network as a whole is waited for.
    ///   - block: is called on the watching thread, and must be quick.
    /// - Throws: an error in `NSPOSIXErrorDomain` if the kernel cannot be listened to. The block is not called then.
    package func wait(
        for target: NetworkTarget, afterLoss isAfterLoss: Bool = false, lookingUp looksUp: Bool = false,
        _ block: @escaping @Sendable () -> Void
    ) throws -> Wait {
        let aim = Aim(target: target, isAfterLoss: isAfterLoss, name: looksUp ? target.name : nil)
        let (group, key, isNew) = groups.withLock { groups in
            groups.count += 1
            let key = groups.count
            let isNew = groups.all[aim] == nil
            groups.all[aim, default: Group(number: key)].blocks[key] = block
            return (groups.all[aim]?.number ?? key, key, isNew)
        }
        if isNew { try listen(for: aim, group) }
        return Wait { [weak self] in self?.remove(key, of: aim, group) }
    }

    /// How many wait. For tests.
    package var count: Int { groups.withLock { $0.all.values.reduce(0) { $0 + $1.blocks.count } } }

    private func listen(for aim: Aim, _ number: Int) throws {
        let addresses = aim.target.addresses
        let source: any ReachabilitySource =
            aim.name.map { DomainSource(name: $0, alternatives: addresses, watch: watch) }
            ?? AddressSource(addresses: addresses, watch: watch)
        let end: @Sendable () -> Void
        do {
            let wasGone = Locked(!aim.isAfterLoss)
            end = try source.begin { [weak self] status in
                let isReturn = wasGone.withLock { wasGone in
                    if status == .notReachable { wasGone = true }
                    return wasGone && status.isReachable
                }
                if isReturn { self?.callAll(of: aim, number) }
            }
        } catch {
            if aim.isAfterLoss {
                let group = takeGroup(of: aim, number)
                withExtendedLifetime(group) {}
            } else {
                // Those that have come since look again themselves, as if there were a way.
                callAll(of: aim, number, except: number)
            }
            throw error
        }
        let isOver = groups.withLock { groups in
            guard groups.all[aim]?.number == number else { return true }
            groups.all[aim]?.end = end
            return false
        }
        if isOver { end() }
    }

    private func callAll(of aim: Aim, _ number: Int, except key: Int? = nil) {
        let group = takeGroup(of: aim, number)
        group?.end?()
        for (own, block) in group?.blocks ?? [:] where own != key { block() }
    }

    private func takeGroup(of aim: Aim, _ number: Int) -> Group? {
        groups.withLock { groups in
            groups.all[aim]?.number == number ? groups.all.removeValue(forKey: aim) : nil
        }
    }

    private func remove(_ key: Int, of aim: Aim, _ number: Int) {
        let (block, group) = groups.withLock { groups -> ((@Sendable () -> Void)?, Group?) in
            guard groups.all[aim]?.number == number else { return (nil, nil) }
            let block = groups.all[aim]?.blocks.removeValue(forKey: key)
            // While it is about to begin, the first one ends it.
            let isOver = groups.all[aim]?.blocks.isEmpty == true
            return (block, isOver ? groups.all.removeValue(forKey: aim) : nil)
        }
        withExtendedLifetime(block) {}
        group?.end?()
    }
}
