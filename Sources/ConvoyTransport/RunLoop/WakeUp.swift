import CEpoll
import Foundation

/// A descriptor that one thread waits on and others make readable: an eventfd on Linux, a pipe elsewhere.
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

    /// Makes the waiting thread go on. Any thread.
    func signal() {
        var one: UInt64 = 1
        // A full counter or pipe means that the thread has a wake-up waiting already.
        _ = write(writeEnd, &one, MemoryLayout<UInt64>.size)
    }

    /// Takes the signals back. The waiting thread.
    func drain() {
        var count: UInt64 = 0
        _ = read(readEnd, &count, MemoryLayout<UInt64>.size)
    }
}
