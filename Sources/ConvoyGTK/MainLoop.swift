#if GTK
import CGTK
import ConvoySupport
import Dispatch
import Foundation

/// GLib's main loop, on which GTK runs, as a place where libdispatch's main queue and Swift's main actor run too.
///
/// ```swift
/// MainLoop.install()
/// let status = g_application_run(application, 0, nil)
/// ```
///
/// Without it, a program that runs GTK's loop never runs what is posted to `DispatchQueue.main`, nor a
/// `Task { @MainActor in … }`, and the handlers of requests run there unless a program says otherwise.
@MainActor public enum MainLoop {
    private static var isInstalled = false
    /// What the module's own callbacks have taken of the loop's time.
    package static var meter = CallbackMeter()

    /// Makes the main queue and the main actor run in GLib's main loop. A second call has no effect, and each function
    /// of this module that binds a request to a widget calls it.
    ///
    /// The main queue has the priority of drawing, so that neither holds up the other: the loop runs what was in the
    /// queue when it came to it, and then draws, before it runs what was added meanwhile. It cannot stop between two
    /// blocks of those, as libdispatch runs them in one go. Pictures come another way, in portions of four milliseconds.
    ///
    /// `main.swift` must not await anything at its top level: the program would run GTK inside a block of the main
    /// queue, which runs no second block before the first has ended. The same holds for a block that runs a loop of its
    /// own, as for a modal dialog.
    public static func install() {
        guard !isInstalled else { return }
        isInstalled = true
        _ = convoy_watch(_dispatch_get_main_queue_handle_4CF(), convoy_redraw_priority()) { descriptor, _, _ in
            // The count of wake-ups, without which the loop would find the descriptor readable for ever.
            var count: UInt64 = 0
            _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
            _dispatch_main_queue_callback_4CF(nil)
            return 1
        }
    }
}

/// Work for the main loop that may come in any number at once, as pictures do: it runs in portions, between which the
/// loop draws and handles events.
package enum MainInbox {
    package typealias Work = @MainActor @Sendable () -> Void

    /// How long one portion takes, in nanoseconds: a quarter of a frame at 60 frames per second.
    package static let portion: UInt64 = 4_000_000

    private struct State {
        var items: [Work] = []
        var isScheduled = false
    }

    private static let state = Locked(State())
    /// What the loop has taken out and not run yet, from the index on.
    @MainActor private static var current: (items: [Work], next: Int) = ([], 0)

    /// Runs the work on the main thread, after what was posted before. Any thread.
    package static func post(_ work: @escaping Work) {
        let isFirst = state.withLock { state in
            state.items.append(work)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        guard isFirst else { return }
        // GLib's functions for sources may be called on any thread.
        _ = convoy_idle(
            convoy_redraw_priority(), { _ in MainActor.assumeIsolated { MainInbox.runPortion() ? 1 : 0 } }, nil)
    }

    /// Whether there is more to run.
    @MainActor private static func runPortion() -> Bool {
        let begin = DispatchTime.now().uptimeNanoseconds
        return MainLoop.meter.measure {
            repeat {
                if current.next == current.items.count {
                    current = ([], 0)
                    current.items = state.withLock { state in
                        defer { state.items = [] }
                        if state.items.isEmpty { state.isScheduled = false }
                        return state.items
                    }
                    if current.items.isEmpty { return false }
                }
                let work = current.items[current.next]
                current.items[current.next] = {}
                current.next += 1
                work()
            } while DispatchTime.now().uptimeNanoseconds - begin < portion
            return true
        }
    }
}

/// How long the callbacks of this module have held the main loop.
package struct CallbackMeter {
    /// Off unless a test turns it on.
    package var isOn = false
    package private(set) var count = 0
    /// The longest of them in nanoseconds of the thread's own time, which other programs on the machine do not change.
    package private(set) var longest: UInt64 = 0
    /// The longest of them by the clock.
    package private(set) var longestByClock: UInt64 = 0
    package private(set) var total: UInt64 = 0

    /// Starts to count anew.
    package mutating func reset() { self = CallbackMeter(isOn: isOn) }

    private init(isOn: Bool) { self.isOn = isOn }
    init() {}

    fileprivate mutating func add(_ time: UInt64, byClock: UInt64) {
        longestByClock = max(longestByClock, byClock)
        count += 1
        total += time
        longest = max(longest, time)
    }

    static var threadTime: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Runs a callback and adds its time.
    @MainActor func measure<Result>(_ body: () -> Result) -> Result {
        guard isOn else { return body() }
        let (begin, clock) = (Self.threadTime, DispatchTime.now().uptimeNanoseconds)
        defer {
            MainLoop.meter.add(Self.threadTime - begin, byClock: DispatchTime.now().uptimeNanoseconds - clock)
        }
        return body()
    }
}
#endif
