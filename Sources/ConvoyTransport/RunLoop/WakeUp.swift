import CEpoll
import Foundation

/// A descriptor that one thread waits on and others make readable: an eventfd on Linux, a pipe on other systems.
final class WakeUp: Sendable {
    let readEnd: Int32
    private let writeEnd: Int32

    init() throws {
        #if os(Linux)
        readEnd = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
        writeEnd = readEnd
        guard readEnd >= 0 else { throw RunLoopError(call: "eventfd", number: errno) }
        #else
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw RunLoopError(call: "pipe", number: errno) }
        for end in ends { _ = fcntl(end, F_SETFL, fcntl(end, F_GETFL) | O_NONBLOCK) }
        (readEnd, writeEnd) = (ends[0], ends[1])
        #endif
    }

    deinit {
        close(readEnd)
        if writeEnd != readEnd { close(writeEnd) }
    }

    /// Wakes the waiting thread. Any thread.
    func signal() {
        var one: UInt64 = 1
        // A full counter or pipe means that a wake-up is already pending.
        _ = write(writeEnd, &one, MemoryLayout<UInt64>.size)
    }

    /// Clears the signals. The waiting thread only.
    func drain() {
        var count: UInt64 = 0
        _ = read(readEnd, &count, MemoryLayout<UInt64>.size)
    }
}
