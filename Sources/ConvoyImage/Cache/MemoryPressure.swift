#if Images
import ConvoySupport
import Foundation

/// How a cache learns that the system runs short of memory.
public enum MemoryPressureWatch: Sendable, Hashable {
    /// The cache does not ask.
    case off
    /// By the kernel's file at this path: pressure stall information, or the events of the program's control group.
    case watching(path: String)
    /// Not at all, for this reason.
    case unavailable(reason: String)
}

/// Reports when the system runs short of memory, on one thread that runs while there are subscribers.
package final class MemoryPressure: Sendable {
    /// A file that tells of a shortage.
    package enum Source: Sendable, Hashable {
        /// Pressure stall information: the kernel reports stalls of 150 ms in a window, for which it must be asked.
        case stalls(path: String)
        /// The event counters of a control group, a line each: `high 0`. Any that grows is a report.
        case events(path: String)

        var path: String {
            switch self {
            case .stalls(let path), .events(let path): path
            }
        }
    }

    /// Ends with this object.
    package final class Subscription: Sendable {
        fileprivate let key: Int
        private let owner: MemoryPressure
        /// What is watched.
        package let watch: MemoryPressureWatch

        fileprivate init(_ key: Int, _ owner: MemoryPressure, _ watch: MemoryPressureWatch) {
            (self.key, self.owner, self.watch) = (key, owner, watch)
        }

        deinit { owner.end(key) }
    }

    /// The pressure of the system, or of the control group of this process.
    package static let shared = MemoryPressure(sources: systemSources)

    private struct State {
        var handlers: [Int: @Sendable () -> Void] = [:]
        var nextKey = 0
        var watcher: PressureWatcher?
        var failure: String?
    }

    private let sources: @Sendable () -> [Source]
    private let state = Locked(State())

    /// - Parameter sources: the files, the best one first.
    package init(sources: @escaping @Sendable () -> [Source]) { self.sources = sources }

    /// Whether a thread is watching.
    package var isWatching: Bool { state.withLock { $0.watcher != nil } }

    /// Calls a handler at each report, on the watching thread.
    package func subscribe(_ handler: @escaping @Sendable () -> Void) -> Subscription {
        let key = state.withLock { state in
            state.nextKey += 1
            state.handlers[state.nextKey] = handler
            return state.nextKey
        }
        return Subscription(key, self, start())
    }

    /// Starts the thread, unless it runs.
    private func start() -> MemoryPressureWatch {
        if let path = state.withLock({ $0.watcher })?.path { return .watching(path: path) }
        var failures: [String] = []
        for source in sources() {
            let watcher: PressureWatcher
            do throws(SystemError) {
                watcher = try PressureWatcher(source)
            } catch {
                failures.append("\(source.path): \(error.text)")
                continue
            }
            let isFirst = state.withLock { state in
                // Another thread may have started one, or the subscriber may have gone.
                guard state.watcher == nil, !state.handlers.isEmpty else { return false }
                state.watcher = watcher
                return true
            }
            guard isFirst else { return .watching(path: source.path) }
            do throws(SystemError) {
                try SystemThread.start(name: "Convoy.Memory", stackSize: 128 << 10) { [self] in
                    watcher.run { report() }
                }
                return .watching(path: source.path)
            } catch {
                state.withLock { $0.watcher = nil }
                failures.append("no thread: \(error.text)")
            }
        }
        return .unavailable(reason: failures.isEmpty ? "The system has no file for it." : failures.joined(separator: "; "))
    }

    private func report() {
        for handler in state.withLock({ $0.handlers }).values { handler() }
    }

    private func end(_ key: Int) {
        let (handler, watcher) = state.withLock { state in
            let handler = state.handlers.removeValue(forKey: key)
            return (handler, state.handlers.isEmpty ? state.watcher.take() : nil)
        }
        watcher?.stop()
        withExtendedLifetime(handler) {}
    }

    /// The files of this system: the pressure on all memory, then on that of the control group.
    private static let systemSources: @Sendable () -> [Source] = {
        var sources = [Source.stalls(path: "/proc/pressure/memory")]
        guard let groups = try? String(contentsOfFile: "/proc/self/cgroup", encoding: .utf8) else { return sources }
        // Of version 2: `0::/path`.
        for line in groups.split(separator: "\n") where line.hasPrefix("0::/") {
            let directory = "/sys/fs/cgroup" + line.dropFirst(3)
            let base = directory.hasSuffix("/") ? directory : directory + "/"
            sources += [.stalls(path: base + "memory.pressure"), .events(path: base + "memory.events")]
        }
        return sources
    }
}

/// Waits for the reports of one file.
private final class PressureWatcher: Sendable {
    let path: String
    private let source: MemoryPressure.Source
    /// The file itself, or what watches it.
    private let descriptor: Int32
    /// A pipe that wakes the thread.
    private let wake: (read: Int32, write: Int32)
    /// The counters when the watch began.
    private let counters: [Substring: UInt64]

    init(_ source: MemoryPressure.Source) throws(SystemError) {
        (self.source, path) = (source, source.path)
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
        // After the watch was set up, so that no growth is missed.
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

    /// Returns after `stop`, or when the file has gone.
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

    /// The counters in a control group's file.
    private static func eventCounters(_ source: MemoryPressure.Source) -> [Substring: UInt64] {
        guard case .events(let path) = source, let text = try? String(contentsOfFile: path, encoding: .utf8) else {
            return [:]
        }
        var counters: [Substring: UInt64] = [:]
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            // `low` counts what the group's protection has not prevented, and is no shortage.
            guard words.count == 2, words[0] != "low", let count = UInt64(words[1]) else { continue }
            counters[words[0]] = count
        }
        return counters
    }

    /// A file of pressure stall information that reports stalls of 150 ms: in a second, for which a program needs a
    /// capability, or in two, for which it needs none.
    private static func trigger(_ path: String) throws(SystemError) -> Int32 {
        var failure = SystemError(code: ENOENT)
        for window in [1_000_000, 2_000_000] {
            let file = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
            guard file >= 0 else { throw SystemError(code: errno) }
            let wish = "some 150000 \(window)"
            // With the zero at its end, as the kernel reads it.
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
