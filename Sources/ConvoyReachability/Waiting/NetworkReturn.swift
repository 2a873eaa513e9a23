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

    private struct Group {
        /// Tells the groups of one target apart that come after each other.
        let number: Int
        var blocks: [Int: @Sendable () -> Void] = [:]
        /// Ends the listening; nil while it is about to begin.
        var end: (@Sendable () -> Void)?
    }

    private struct Groups {
        var all: [NetworkTarget: Group] = [:]
        var count = 0
    }

    private let watch: NetworkWatch
    private let groups = Locked(Groups())

    init(watch: NetworkWatch) { self.watch = watch }

    /// Calls the block once there is a way, which may be before this returns; not after the wait is released.
    ///
    /// - Parameter block: is called on the watching thread, and must be quick.
    /// - Throws: an error in `NSPOSIXErrorDomain` if the kernel cannot be listened to. The block is not called then.
    package func wait(for target: NetworkTarget, _ block: @escaping @Sendable () -> Void) throws -> Wait {
        let (group, key, isNew) = groups.withLock { groups in
            groups.count += 1
            let key = groups.count
            let isNew = groups.all[target] == nil
            groups.all[target, default: Group(number: key)].blocks[key] = block
            return (groups.all[target]?.number ?? key, key, isNew)
        }
        if isNew { try listen(for: target, group) }
        return Wait { [weak self] in self?.remove(key, of: target, group) }
    }

    /// How many wait. For tests.
    package var count: Int { groups.withLock { $0.all.values.reduce(0) { $0 + $1.blocks.count } } }

    private func listen(for target: NetworkTarget, _ number: Int) throws {
        let source = AddressSource(addresses: target.addresses, watch: watch)
        let end: @Sendable () -> Void
        do {
            end = try source.begin { [weak self] status in
                if status.isReachable { self?.callAll(of: target, number) }
            }
        } catch {
            // Those that have come since look again themselves, as if there were a way.
            callAll(of: target, number, except: number)
            throw error
        }
        let isOver = groups.withLock { groups in
            guard groups.all[target]?.number == number else { return true }
            groups.all[target]?.end = end
            return false
        }
        if isOver { end() }
    }

    private func callAll(of target: NetworkTarget, _ number: Int, except key: Int? = nil) {
        let group = groups.withLock { groups in
            groups.all[target]?.number == number ? groups.all.removeValue(forKey: target) : nil
        }
        group?.end?()
        for (own, block) in group?.blocks ?? [:] where own != key { block() }
    }

    private func remove(_ key: Int, of target: NetworkTarget, _ number: Int) {
        let (block, group) = groups.withLock { groups -> ((@Sendable () -> Void)?, Group?) in
            guard groups.all[target]?.number == number else { return (nil, nil) }
            let block = groups.all[target]?.blocks.removeValue(forKey: key)
            // While it is about to begin, the first one ends it.
            let isOver = groups.all[target]?.blocks.isEmpty == true
            return (block, isOver ? groups.all.removeValue(forKey: target) : nil)
        }
        withExtendedLifetime(block) {}
        group?.end?()
    }
}
