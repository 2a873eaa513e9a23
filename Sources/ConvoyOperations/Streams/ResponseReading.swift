import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// The reading of an operation's body, shared by the sequences of its bytes. When none of them can read any more, the
/// operation is cancelled.
final class ResponseReading: Sendable {
    let operation: URLConnectionOperation
    private let pipe: ResponsePipe
    private let hasStarted = Atomic(false)
    private let isClaimed = Atomic(false)

    init(of operation: URLConnectionOperation, from pipe: ResponsePipe) {
        self.operation = operation
        self.pipe = pipe
        operation.whenDelivered { [weak operation] in
            guard let operation else { return }
            pipe.finish(with: operation.error, head: operation.responseHead, body: operation.responseData)
        }
    }

    deinit { end() }

    /// Claims the body for one reader. False if there is one already.
    func claim() -> Bool { !isClaimed.exchange(true, ordering: .acquiringAndReleasing) }

    /// Notes that the reader is gone.
    func end() {
        pipe.abandon()
        operation.cancel()
    }

    nonisolated(nonsending) func response() async throws -> HTTPURLResponse {
        let head = try await withTaskCancellationHandler {
            start()
            return try await pipe.head()
        } onCancel: {
            operation.cancel()
        }
        if let response = head?.urlResponse { return response }
        throw URLError(.badServerResponse, url: operation.request.url, "There is no response.")
    }

    /// All available bytes, as soon as there are any; nil at the end.
    nonisolated(nonsending) func next() async throws -> Data? {
        // Even if bytes are available.
        if Task.isCancelled { end() }
        return try await withTaskCancellationHandler {
            start()
            return try await pipe.next()
        } onCancel: {
            operation.cancel()
        }
    }

    private func start() {
        if !hasStarted.exchange(true, ordering: .relaxed) { AwaitedOperations.start(operation) }
    }
}
