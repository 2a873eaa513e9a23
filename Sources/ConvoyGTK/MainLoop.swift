#if GTK
import CGTK
import ConvoySupport
import Dispatch
import Foundation

/// The integration of libdispatch's main queue and Swift's main actor into GLib's main loop, which GTK uses.
///
/// ```swift
/// MainLoop.install()
/// let status = g_application_run(application, 0, nil)
/// ```
///
/// Without this integration, a program that runs GTK's loop never runs blocks posted to `DispatchQueue.main` or a
/// `Task { @MainActor in … }`. By default, request handlers run on the main queue as well.
@MainActor public enum MainLoop {
    private static var isInstalled = false
    /// The time that this module's callbacks spend in the main loop.
    package static var meter = CallbackMeter()

    /// Makes the main queue and the main actor run in GLib's main loop. A second call has no
    /// effect. Every function of this module that binds a request to a widget calls this function.
    ///
    /// The main queue has the same priority as drawing, so that neither starves the other: the loop
    /// runs the blocks that are queued when it reaches the queue, then draws, and only then runs
    /// blocks added in the meantime. It cannot draw between two of these blocks, because
    /// libdispatch runs them in one call. Pictures are therefore delivered separately, in portions
    /// of four milliseconds.
    ///
    /// `main.swift` must not await anything at its top level. Otherwise GTK would run inside a
    /// block of the main queue, which runs no other block until that block has returned. The same
    /// applies to a block that runs a nested loop, for example for a modal dialog.
    public static func install() {
        guard !isInstalled else { return }
        isInstalled = true
        _ = convoy_watch(_dispatch_get_main_queue_handle_4CF(), convoy_redraw_priority()) { descriptor, _, _ in
            // Reset the wake-up count; otherwise the descriptor would stay readable.
            var count: UInt64 = 0
            _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
            _dispatch_main_queue_callback_4CF(nil)
            return 1
        }
    }
}

/// A queue of work for the main loop that may receive any number of items at once, such as
/// pictures. It runs in portions, so that the loop can draw and handle events in between.
package enum MainInbox {
    package typealias Work = @MainActor @Sendable () -> Void

    /// The duration of one portion in nanoseconds: a quarter of a frame at 60 frames per second.
    package static let portion: UInt64 = 4_000_000

    private struct State {
        var items: [Work] = []
        var isScheduled = false
    }

    private static let state = Locked(State())
    /// The items that the loop has removed from the queue. Those from `next` on have not run yet.
    @MainActor private static var current: (items: [Work], next: Int) = ([], 0)

    /// Runs the work on the main thread, after all work posted earlier. Can be called from any
    /// thread.
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

    /// Runs one portion. Returns whether any work remains.
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

/// A meter of the time for which the callbacks of this module hold the main loop.
package struct CallbackMeter {
    /// Whether callbacks are measured. False unless a test sets it.
    package var isOn = false
    package private(set) var count = 0
    /// The longest callback in nanoseconds of thread CPU time, which other programs on the machine
    /// do not affect.
    package private(set) var longest: UInt64 = 0
    /// The longest callback in nanoseconds of wall-clock time.
    package private(set) var longestByClock: UInt64 = 0
    package private(set) var total: UInt64 = 0

    /// Resets the counts.
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

    /// Runs a callback and records its duration.
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
