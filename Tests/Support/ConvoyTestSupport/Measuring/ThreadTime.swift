import Foundation

/// Runs a block five times, and returns the lowest CPU time that this thread needed, in nanoseconds. Use it to compare
/// two amounts of work on a machine that also runs other programs.
public func leastThreadTime(_ body: () throws -> Void) rethrows -> Int {
    var least = Int.max
    for _ in 0..<5 {
        let before = threadTime()
        try body()
        least = min(least, threadTime() - before)
    }
    return least
}

private func threadTime() -> Int {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return time.tv_sec * 1_000_000_000 + time.tv_nsec
}
