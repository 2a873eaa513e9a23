#if Images
import ConvoySupport
import Foundation

/// The state of a cache's subscription to memory pressure.
package enum MemoryPressureWatch: Sendable, Hashable {
    /// The cache does not observe memory pressure.
    case off
    /// The kernel's file at this path is being watched: pressure stall information, or the events of the program's
    /// control group.
    case watching(path: String)
    /// Memory pressure cannot be observed. The value is the reason.
    case unavailable(reason: String)
}

/// An observer that reports when the system runs short of memory. Its only thread runs while it has subscribers.
package final class MemoryPressure: Sendable {
    /// A file that reports memory pressure.
    package enum Source: Sendable, Hashable {
        /// Pressure stall information: a trigger is registered with the kernel, which then reports stalls of 150 ms
        /// within a window.
        case stalls(path: String)
        /// The event counters of a control group, one per line: `high 0`. An increase of any counter is reported.
        case events(path: String)

        var path: String {
            switch self {
            case .stalls(let path), .events(let path): path
            }
        }
    }

    /// A subscription that ends when it is released.
    package final class Subscription: Sendable {
        fileprivate let key: Int
        private let owner: MemoryPressure
        /// The file that is watched for this subscription, or the reason why none is watched.
        package let watch: MemoryPressureWatch

        fileprivate init(_ key: Int, _ owner: MemoryPressure, _ watch: MemoryPressureWatch) {
            self.key = key
            self.owner = owner
            self.watch = watch
        }

        deinit { owner.end(key) }
    }

    /// The memory pressure of the system, or of the control group of this process.
    package static let shared = MemoryPressure(sources: systemSources)

    private struct Subscribers {
        var handlers: [Int: @Sendable () -> Void] = [:]
        var nextKey = 0
        var watcher: PressureWatcher?
        var failure: String?
    }

    private let sources: @Sendable () -> [Source]
    private let subscribers = Locked(Subscribers())

    /// Creates an observer without subscribers.
    ///
    /// - Parameter sources: The files to try, in order of preference.
    package init(sources: @escaping @Sendable () -> [Source]) { self.sources = sources }

    /// Whether the watching thread is running.
    package var isWatching: Bool { subscribers.withLock { $0.watcher != nil } }

    /// Calls a handler for each report, on the watching thread.
    package func subscribe(_ handler: @escaping @Sendable () -> Void) -> Subscription {
        let key = subscribers.withLock { subscribers in
            subscribers.nextKey += 1
            subscribers.handlers[subscribers.nextKey] = handler
            return subscribers.nextKey
        }
        return Subscription(key, self, start())
    }

    /// Starts the thread unless it is running.
    private func start() -> MemoryPressureWatch {
        if let path = subscribers.withLock({ $0.watcher })?.path { return .watching(path: path) }
        var failures: [String] = []
        for source in sources() {
            let watcher: PressureWatcher
            do throws(SystemError) {
                watcher = try PressureWatcher(source)
            } catch {
                failures.append("\(source.path): \(error.text)")
                continue
            }
            let isFirst = subscribers.withLock { subscribers in
                // Another thread may have started a watcher, or the subscriber may have been released.
                guard subscribers.watcher == nil, !subscribers.handlers.isEmpty else { return false }
                subscribers.watcher = watcher
                return true
            }
            guard isFirst else { return .watching(path: source.path) }
            do throws(SystemError) {
                try SystemThread.start(name: "Convoy.Memory", stackSize: 128 << 10) { [self] in
                    watcher.run { report() }
                }
                return .watching(path: source.path)
            } catch {
                subscribers.withLock { $0.watcher = nil }
                failures.append("cannot start a thread: \(error.text)")
            }
        }
        return .unavailable(reason: failures.isEmpty ? "No memory pressure file exists." : failures.joined(separator: "; "))
    }

    private func report() {
        for handler in subscribers.withLock({ $0.handlers }).values { handler() }
    }

    private func end(_ key: Int) {
        let (handler, watcher) = subscribers.withLock { subscribers in
            let handler = subscribers.handlers.removeValue(forKey: key)
            return (handler, subscribers.handlers.isEmpty ? subscribers.watcher.take() : nil)
        }
        watcher?.stop()
        withExtendedLifetime(handler) {}
    }

    /// The files of this system: the file for all memory, then those of the control group.
    private static let systemSources: @Sendable () -> [Source] = {
        var sources = [Source.stalls(path: "/proc/pressure/memory")]
        guard let groups = try? String(contentsOfFile: "/proc/self/cgroup", encoding: .utf8) else { return sources }
        // The line of cgroup version 2 has the form `0::/path`.
        for line in groups.split(separator: "\n") where line.hasPrefix("0::/") {
            let directory = "/sys/fs/cgroup" + line.dropFirst(3)
            let base = directory.hasSuffix("/") ? directory : directory + "/"
            sources += [.stalls(path: base + "memory.pressure"), .events(path: base + "memory.events")]
        }
        return sources
    }
}

/// A thread that waits for the reports of one file.
private final class PressureWatcher: Sendable {
    let path: String
    private let source: MemoryPressure.Source
    /// The file itself, or an inotify instance that watches it.
    private let descriptor: Int32
    /// A pipe that wakes the thread.
    private let wake: (read: Int32, write: Int32)
    /// The counters when watching began.
    private let counters: [Substring: UInt64]

    init(_ source: MemoryPressure.Source) throws(SystemError) {
        self.source = source
        path = source.path
        switch source {
        case .stalls(let path): descriptor = try PressureWatcher.trigger(path)
        case .events(let path): descriptor = try PressureWatcher.changes(of: path)
        }
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            let failure = SystemError(code: errno)
            close(descriptor)
            throw failure
        }
        // Read the counters after setting up the watch, so that no increase is missed.
        counters = PressureWatcher.eventCounters(source)
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        wake = (ends[0], ends[1])
    }

    deinit {
        close(descriptor)
        close(wake.read)
        close(wake.write)
    }

    func stop() { _ = write(wake.write, "x", 1) }

    /// Reports memory pressure until `stop` is called or the file is removed.
    func run(_ report: () -> Void) {
        var counters = counters
        while true {
            let interest: Int16
            if case .stalls = source { interest = Int16(POLLPRI) } else { interest = Int16(POLLIN) }
            var watched = [
                pollfd(fd: descriptor, events: interest, revents: 0),
                pollfd(fd: wake.read, events: Int16(POLLIN), revents: 0),
            ]
            let count = poll(&watched, 2, -1)
            if count < 0, errno == EINTR { continue }
            guard count > 0, watched[1].revents == 0 else { return }
            if case .stalls = source {
                guard watched[0].revents & Int16(POLLERR) == 0 else { return }
                report()
            } else {
                var events = [UInt8](repeating: 0, count: 4096)
                guard read(descriptor, &events, events.count) > 0 else { return }
                let now = PressureWatcher.eventCounters(source)
                if now.contains(where: { $0.value > counters[$0.key] ?? 0 }) { report() }
                counters = now
            }
        }
    }

    /// Returns the counters in a control group's event file.
    private static func eventCounters(_ source: MemoryPressure.Source) -> [Substring: UInt64] {
        guard case .events(let path) = source, let text = try? String(contentsOfFile: path, encoding: .utf8) else {
            return [:]
        }
        var counters: [Substring: UInt64] = [:]
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            // `low` counts reclaims below the group's protection, which do not indicate a shortage.
            guard words.count == 2, words[0] != "low", let count = UInt64(words[1]) else { continue }
            counters[words[0]] = count
        }
        return counters
    }

    /// Opens a file of pressure stall information that reports stalls of 150 ms, within one second if the process has
    /// the required capability, otherwise within two seconds.
    private static func trigger(_ path: String) throws(SystemError) -> Int32 {
        var failure = SystemError(code: ENOENT)
        for window in [1_000_000, 2_000_000] {
            let file = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
            guard file >= 0 else { throw SystemError(code: errno) }
            let wish = "some 150000 \(window)"
            // The kernel expects a terminating zero byte.
            if write(file, wish, wish.utf8.count + 1) > 0 { return file }
            failure = SystemError(code: errno)
            close(file)
        }
        throw failure
    }

    private static func changes(of path: String) throws(SystemError) -> Int32 {
        let watch = inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))
        guard watch >= 0 else { throw SystemError(code: errno) }
        guard inotify_add_watch(watch, path, UInt32(IN_MODIFY)) >= 0 else {
            let failure = SystemError(code: errno)
            close(watch)
            throw failure
        }
        return watch
    }
}
#endif
