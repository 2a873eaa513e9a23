import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// A pipe that passes the bytes of a response from the network thread to the reading task. It can start over only until
/// the reader has received the first byte.
///
/// It holds at most ``capacity`` bytes plus one block; the transfer waits while it is full. The reader receives all
/// available bytes at once.
final class ResponsePipe: BodySink {
    /// The number of unread bytes beyond which the transfer waits for the reader.
    static let capacity = 128 << 10

    private enum End {
        case success
        case failure(any Error)
    }

    private struct State {
        var head: ResponseHead?
        var bytes = Data()
        /// Whether the reader has received any byte.
        var hasGivenOut = false
        /// Whether the reader has stopped reading.
        var isAbandoned = false
        var end: End?
        /// A closure that notifies the transfer that the pipe has room again.
        var room: (@Sendable () -> Void)?
        /// The number of changes after which waiting readers must check the state again.
        var changes: UInt64 = 0
        /// The readers waiting for the next change.
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Locked(State())

    // MARK: The transfer

    var isImmediate: Bool { true }
    var isPaced: Bool { true }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        guard count == 0 || takeBack() else {
            let cause = ResponseBytesError.cannotStartOver
            throw URLError(.resourceUnavailable, url: nil, "\(cause)", underlying: cause)
        }
        change { $0.head = response }
    }

    func write(_ block: UnsafeRawBufferPointer) {
        change { state in
            if !state.isAbandoned { state.bytes.append(contentsOf: block) }
        }
    }

    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            guard state.bytes.count >= Self.capacity, !state.isAbandoned else { return false }
            state.room = then
            return true
        }
    }

    /// Discards the received bytes. Returns false if the reader has already received some of them.
    private func takeBack() -> Bool {
        state.withLock { state in
            guard !state.hasGivenOut else { return false }
            state.bytes = Data()
            return true
        }
    }

    /// Records that the operation has finished.
    ///
    /// - Parameter body: The body, if it had another destination.
    func finish(with error: (any Error)?, head: ResponseHead?, body: Data?) {
        change { state in
            guard state.end == nil else { return }
            if let error {
                state.end = .failure(error)
                // A cancelled reader receives no more bytes.
                if (error as? URLError)?.code == .cancelled { state.bytes = Data() }
            } else {
                state.end = .success
                if state.head == nil {
                    state.head = head
                    if let body, !state.isAbandoned { state.bytes = body }
                }
            }
        }
    }

    /// Changes the state under the lock, then resumes the waiting reader.
    private func change(_ body: (inout State) -> Void) {
        let waiting = state.withLock { state in
            body(&state)
            state.changes &+= 1
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    // MARK: The reader

    /// Records that the reader has stopped reading, so that the transfer no longer waits for it.
    func abandon() {
        let room = state.withLock { state in
            state.isAbandoned = true
            state.bytes = Data()
            return state.room.take()
        }
        room?()
    }

    /// Returns the head of the response; nil if the operation has ended without one.
    nonisolated(nonsending) func head() async throws -> ResponseHead? {
        try await wait { state in
            if let head = state.head { return .ready(head) }
            return switch state.end {
            case nil: .wait
            case .success: .ready(nil)
            case .failure(let error): .failed(error)
            }
        }
    }

    /// Returns all available bytes, as soon as any have arrived; nil at the end of the body.
    nonisolated(nonsending) func next() async throws -> Data? {
        let (bytes, room): (Data?, (@Sendable () -> Void)?) = try await wait { state in
            if !state.bytes.isEmpty {
                let bytes = state.bytes
                state.bytes = Data()
                state.hasGivenOut = true
                return .ready((bytes, state.room.take()))
            }
            return switch state.end {
            case nil: .wait
            case .success where state.isAbandoned: .failed(URLError(.cancelled))
            case .success: .ready((nil, nil))
            case .failure(let error): .failed(error)
            }
        }
        room?()
        return bytes
    }

    private enum PipeReading<Value: Sendable>: Sendable {
        case ready(Value)
        case failed(any Error)
        case wait
    }

    /// Waits until `answer` returns a value or an error.
    private nonisolated(nonsending) func wait<Value: Sendable>(
        for answer: @Sendable (inout State) -> PipeReading<Value>
    ) async throws -> Value {
        while true {
            let (found, changes) = state.withLock { (answer(&$0), $0.changes) }
            switch found {
            case .ready(let value): return value
            case .failed(let error): throw error
            case .wait: await nextChange(after: changes)
            }
        }
    }

    /// Waits for a change after the given number of changes.
    private nonisolated(nonsending) func nextChange(after changes: UInt64) async {
        await withCheckedContinuation { continuation in
            let hasChanged = state.withLock { state in
                if state.changes == changes { state.waiting.append(continuation) }
                return state.changes != changes
            }
            if hasChanged { continuation.resume() }
        }
    }
}

/// The reading of an operation's body, shared by the sequences of its bytes. The operation is cancelled when none of
/// them can read any more.
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

    /// Claims the body for one reader. Returns false if the body already has a reader.
    func claim() -> Bool { !isClaimed.exchange(true, ordering: .acquiringAndReleasing) }

    /// Records that the reader has stopped reading.
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
        throw URLError(.badServerResponse, url: operation.request.url, "The response is missing.")
    }

    /// Returns all available bytes, as soon as any have arrived; nil at the end.
    nonisolated(nonsending) func next() async throws -> Data? {
        // A cancelled task ends the reading, even if bytes are available.
        if Task.isCancelled { end() }
        return try await withTaskCancellationHandler {
            start()
            return try await pipe.next()
        } onCancel: {
            operation.cancel()
        }
    }

    private func start() {
        if !hasStarted.exchange(true, ordering: .relaxed) { operation.startAwaited() }
    }
}
