import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// A queue for completion handlers, so that no test needs the main queue.
let testQueue = DispatchQueue(label: "Convoy.Tests")

/// An operation whose handlers run on a queue of the tests and record their calls.
final class Probe: Sendable {
    let operation: HTTPRequestOperation
    private let log = Locked<[String]>([])
    private let done = DispatchSemaphore(value: 0)

    init(
        _ url: URL, method: String = "GET", output: OutputStream? = nil, into sink: (any BodySink)? = nil,
        timeout: TimeInterval = 60
    ) {
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.timeoutInterval = timeout
        operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        operation.outputStream = output
        if let sink { operation.setBodySink(sink) }
        operation.setCompletionHandler(
            success: { [self] _, _ in log.withLock { $0.append("success") } },
            failure: { [self] _, error in log.withLock { $0.append("failure \((error as NSError).code)") } })
        operation.completionBlock = { [self] in
            log.withLock { $0.append("completion") }
            done.signal()
        }
    }

    /// Returns the arguments of the handlers, after the operation has finished and they have run; nil if that takes
    /// more than a hundred seconds, so that a busy machine does not cause a failure.
    func outcome(within seconds: Double = 100) -> [String]? {
        guard done.wait(timeout: .now() + seconds) == .success else { return nil }
        // A second call, if any, would be on the same queue.
        testQueue.sync {}
        return log.withLock { $0 }
    }

    var error: URLError? { operation.error as? URLError }
}

extension Probe {
    static let cancelled = ["failure \(URLError.cancelled.rawValue)", "completion"]
    static let succeeded = ["success", "completion"]
}

/// An event that a test waits for on a thread that may block.
final class Signal: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    func fire() { semaphore.signal() }
    func wait(within seconds: Double = 100) -> Bool { semaphore.wait(timeout: .now() + seconds) == .success }
}

extension URLConnectionOperation {
    /// Observes the operation for as long as it exists.
    func keepObserving<Value: Sendable & Equatable>(
        _ value: ObservedValue<Value>, on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (URLConnectionOperation, OperationChange<Value>) -> Void
    ) {
        userInfo[UUID().uuidString] = observe(value, on: queue, handler)
    }
}

extension HTTPRequestOperation {
    /// Calls back once when the first bytes of the body have arrived.
    func onFirstBytes(_ body: @escaping @Sendable () -> Void) {
        let isFirst = Locked(true)
        downloadProgressHandler = { _, _, _ in
            if isFirst.withLock({ first in
                defer { first = false }
                return first
            }) {
                body()
            }
        }
    }
}

extension RequestOperationQueue {
    /// Closes the gate of a host until the queue's clock reaches `deadline`, in nanoseconds.
    func closeGate(forHost host: String, until deadline: UInt64) {
        scheduler.change { $0.lanes.closeGate(of: host, until: deadline, patience: nil) }
    }
}
