import ConvoyDiagnostics
import ConvoyOperations
import Foundation

/// The functions of operations and their queues.
enum OperationRows {
    static let all = [
        row("URLConnectionOperation.finished()") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.operation().finished()
        },
        row("BatchOperation.finished()", [.success, .cancellation]) { actor, attempt in
            defer { attempt.check(actor) }
            let member = try attempt.operation()
            let batch = BatchOperation(of: [member])
            attempt.manager.enqueue([member, batch])
            try await batch.finished()
        },
        row("HTTPRequestOperation.value(as:)") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.operation().value(as: [Int].self)
        },
        row("TypedOperation.value()") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.manager.operation(.get, attempt.url(), as: [Int].self).value()
        },
        row("RequestOperationQueue.enqueue(_:)", isCancelledFirst: true) { actor, attempt in
            defer { attempt.check(actor) }
            let queue = RequestOperationQueue()
            queue.isSuspended = true
            queue.maximumLength = 1
            queue.overflowPolicy = attempt.ending == .error ? .refuse : .wait
            if attempt.ending != .success { try await queue.enqueue(attempt.operation()) }
            try await queue.enqueue(attempt.operation())
        },
        row("HARRecorder.data()", [.success]) { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await HARRecorder().data()
        },
        row("HARRecorder.write(to:)", [.success, .error]) { actor, attempt in
            defer { attempt.check(actor) }
            try await HARRecorder().write(to: attempt.file(attempt.ending == .success ? "log" : "missing/log"))
        },
    ]
}
