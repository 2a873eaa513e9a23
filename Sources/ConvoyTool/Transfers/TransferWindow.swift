import ConvoySupport
import Dispatch

/// The rule that determines when the next file of a long list gets its transfer. It keeps the number of concurrent
/// transfers small, without letting one host delay files of other hosts.
///
/// A transfer counts in the window until it finishes or waits to be retried. If a host has enough transfers, its
/// further files are deferred until one of its transfers finishes. Deferred files use little memory.
struct TransferWindow<Item: Sendable>: Sendable {
    private struct HostUse {
        var count = 0
        var waiting: [Item] = []
        /// The number of removed waiting items. Removing the first element of an array takes time proportional to its
        /// length.
        var taken = 0

        var isEmpty: Bool { taken == waiting.count }
        var isUnused: Bool { count == 0 && isEmpty }
    }

    /// The maximum number of concurrent transfers.
    let size: Int
    /// The maximum number of concurrent transfers per host.
    let sizePerHost: Int
    /// The maximum number of deferred files.
    private let limit: Int
    private(set) var count = 0
    private(set) var waitingCount = 0
    private var hosts: [Target: HostUse] = [:]
    /// The hosts whose deferred files can start.
    private var free: [Target] = []

    init(size: Int, sizePerHost: Int, limit: Int = 100_000) {
        self.size = size
        self.sizePerHost = sizePerHost
        self.limit = limit
    }

    /// Whether a further file may be read.
    var wantsMore: Bool { count < size && waitingCount < limit }

    /// Adds a file that was read.
    ///
    /// - Returns: Whether to start it now. Otherwise, it is deferred.
    mutating func admit(_ item: Item, of host: Target) -> Bool {
        // Remove the host temporarily, so that its waiting items are not copied.
        var own = hosts.removeValue(forKey: host) ?? HostUse()
        let begins = own.count < sizePerHost && own.isEmpty
        if begins {
            own.count += 1
            count += 1
        } else {
            own.waiting.append(item)
            waitingCount += 1
        }
        hosts[host] = own
        return begins
    }

    /// Returns a deferred file to start now, or nil.
    mutating func next() -> (item: Item, host: Target)? {
        guard count < size else { return nil }
        while let name = free.popLast() {
            guard var host = hosts.removeValue(forKey: name) else { continue }
            var item: Item?
            if host.count < sizePerHost, !host.isEmpty {
                item = host.waiting[host.taken]
                host.taken += 1
                host.count += 1
                if host.taken > 1000, host.taken * 2 > host.waiting.count {
                    host.waiting.removeFirst(host.taken)
                    host.taken = 0
                }
                if host.count < sizePerHost, !host.isEmpty { free.append(name) }
            }
            hosts[name] = host
            guard let item else { continue }
            count += 1
            waitingCount -= 1
            return (item, name)
        }
        return nil
    }

    /// Stops counting a transfer that waits to be retried.
    mutating func setBack() { count -= 1 }

    /// Removes a finished transfer.
    ///
    /// - Parameter counted: Whether the transfer counted until now.
    mutating func finish(of host: Target, counted: Bool) {
        if counted { count -= 1 }
        hosts[host]?.count -= 1
        if hosts[host]?.isUnused == true {
            hosts[host] = nil
        } else if hosts[host]?.isEmpty == false {
            free.append(host)
        }
    }
}

/// A window that is shared by the thread that creates transfers and their handlers.
final class SharedTransferWindow<Item: Sendable>: Sendable {
    private let window: Locked<TransferWindow<Item>>
    private let changes = DispatchSemaphore(value: 0)

    init(_ window: TransferWindow<Item>) { self.window = Locked(window) }

    func with<Result: Sendable>(_ body: (inout TransferWindow<Item>) -> Result) -> Result { window.withLock { body(&$0) } }

    /// Changes the window, and wakes the thread that waits for a change.
    func change(_ body: (inout TransferWindow<Item>) -> Void) {
        window.withLock { body(&$0) }
        changes.signal()
    }

    /// Waits briefly for a change. The wait is short because the program may have been interrupted.
    func waitForChange() { _ = changes.wait(timeout: .now() + .milliseconds(100)) }
}
