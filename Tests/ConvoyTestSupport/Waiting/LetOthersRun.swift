import Dispatch
import Foundation

/// Gives the processor up again and again for so long, so that other threads come in between: to widen a gap, or to be
/// slow. Nothing is waited for.
public func letOthersRun(microseconds: Int) {
    guard microseconds > 0 else { return }
    let end = DispatchTime.now() + .microseconds(microseconds)
    repeat { sched_yield() } while DispatchTime.now() < end
}
