import ConvoySupport
import Dispatch

/// Decides when the next file of a long list gets its transfer: few of them exist at a time, but no host keeps the others
/// waiting that could be served.
///
/// A transfer counts for the window until it has finished, or until it waits for another try. A file whose host has
/// enough transfers is set aside, until one of these has finished; what is set aside is small.
struct TransferWindow<Item: Sendable>: Sendable {
    private struct HostUse {
        var count = 0
        var waiting: [Item] = []
        /// How many of the waiting are gone: removing the first of an array costs time in proportion to its length.
        var taken = 0

        var isEmpty: Bool { taken == waiting.count }
        var isUnused: Bool { count == 0 && isEmpty }
    }

    /// How many transfers there are at a time.
    let size: Int
    /// How many of these may be of one host.
    let sizePerHost: Int
    /// How many files are set aside at the most.
    private let limit: Int
    private(set) var count = 0
    private(set) var waitingCount = 0
    private var hosts: [Target: HostUse] = [:]
    /// The hosts with files that were set aside and could begin.
    private var free: [Target] = []

    init(size: Int, sizePerHost: Int, limit: Int = 100_000) {
        (self.size, self.sizePerHost, self.limit) = (size, sizePerHost, limit)
    }

    /// Whether another file may be read.
    var wantsMore: Bool { count < size && waitingCount < limit }

    /// Takes a file that was read.
    ///
    /// - Returns: whether it is to begin now. If not, it is set aside.
    mutating func admit(_ item: Item, of host: Target) -> Bool {
        // Taken out, so that the waiting are not copied.
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

    /// A file that was set aside and begins now; nil if there is none, or no room.
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

    /// A transfer waits for another try, and counts no more.
    mutating func setBack() { count -= 1 }

    /// A transfer has finished.
    ///
    /// - Parameter counted: whether it counted until now.
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

/// A window that the thread which makes transfers shares with their handlers.
final class SharedTransferWindow<Item: Sendable>: Sendable {
    private let window: Locked<TransferWindow<Item>>
    private let changes = DispatchSemaphore(value: 0)

    init(_ window: TransferWindow<Item>) { self.window = Locked(window) }

    func with<Result: Sendable>(_ body: (inout TransferWindow<Item>) -> Result) -> Result { window.withLock { body(&$0) } }

    /// Changes the window, and wakes the one that waits for a change.
    func change(_ body: (inout TransferWindow<Item>) -> Void) {
        window.withLock { body(&$0) }
        changes.signal()
    }

    /// Waits for a change, but not for long: the program may have been interrupted.
    func waitForChange() { _ = changes.wait(timeout: .now() + .milliseconds(100)) }
}
