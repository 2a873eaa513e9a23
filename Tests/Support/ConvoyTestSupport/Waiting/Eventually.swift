import Foundation

/// The error if a condition did not hold in time. A test that throws it fails.
public struct TimeoutError: Error, CustomStringConvertible {
    /// The awaited condition and the location of the wait.
    public let description: String

    init(_ what: String, _ timeout: TimeInterval, _ file: StaticString, _ line: UInt) {
        description = "waited \(timeout) s in vain for \(what) (\(file):\(line))"
    }
}

/// Polls a condition until it holds. Use it only for conditions that nothing signals, because it polls every two
/// milliseconds and blocks its thread.
///
/// - Parameters:
///   - timeout: The maximum time to wait, in seconds.
///   - what: The awaited condition, for the message.
/// - Throws: `TimeoutError`, or the condition's error.
public func eventually(
    timeout: TimeInterval = 10, _ what: @autoclosure () -> String = "a condition", file: StaticString = #fileID,
    line: UInt = #line, _ condition: () throws -> Bool
) throws {
    let deadline = DispatchTime.now() + timeout
    while try !condition() {
        guard DispatchTime.now() < deadline else { throw TimeoutError(what(), timeout, file, line) }
        usleep(2000)
    }
}

/// Polls like ``eventually(timeout:_:file:line:_:)``, but suspends the task instead of blocking its thread.
public func waitUntil(
    timeout: TimeInterval = 30, _ what: @autoclosure () -> String = "a condition", file: StaticString = #fileID,
    line: UInt = #line, isolation: isolated (any Actor)? = #isolation, _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + .seconds(timeout)
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw TimeoutError(what(), timeout, file, line) }
        try await Task.sleep(for: .milliseconds(10))
    }
}

extension DispatchSemaphore {
    /// Blocks the thread until the semaphore is signalled, for at most the given time. Throws `TimeoutError`.
    @available(*, noasync)
    public func waitOrThrow(
        timeout: TimeInterval = 10, _ what: @autoclosure () -> String = "a signal", file: StaticString = #fileID,
        line: UInt = #line
    ) throws {
        guard wait(timeout: .now() + timeout) == .timedOut else { return }
        throw TimeoutError(what(), timeout, file, line)
    }
}
