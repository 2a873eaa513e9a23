import Dispatch
import Foundation

/// Yields the processor repeatedly for the given time, so that other threads can run, to widen a race window or
/// to simulate slowness. Does not block.
public func letOthersRun(microseconds: Int) {
    guard microseconds > 0 else { return }
    let end = DispatchTime.now() + .microseconds(microseconds)
    repeat { sched_yield() } while DispatchTime.now() < end
}
