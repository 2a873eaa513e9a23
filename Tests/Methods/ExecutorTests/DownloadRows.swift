import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import Foundation

/// The functions of downloads that survive the process.
enum DownloadRows {
    static let all = [
        row("DownloadQueue.enqueue(_:)", [.success, .error]) { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().enqueue(attempt.download())
        },
        row("DownloadQueue.enqueue(_:)", [.success, .error]) { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().enqueue(OutboxRequest(attempt.request()))
        },
        row("DownloadQueue.enqueue(_:)", [.success, .error]) { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().enqueue([attempt.download()])
        },
        row("DownloadQueue.flush()", [.success, .error]) { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().flush()
        },
        row("DownloadQueue.waitUntilAllFinished()", [.success, .cancellation]) { actor, attempt in
            defer { attempt.check(actor) }
            let queue = try await attempt.queue()
            try await queue.enqueue(attempt.download())
            queue.start()
            try await queue.waitUntilAllFinished()
        },
        row("DownloadQueue.close()", [.success]) { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().close()
        },
    ]
}

extension Attempt {
    /// Returns a queue, which is closed if the call must fail.
    fileprivate func queue() async throws -> DownloadQueue {
        let queue = try DownloadQueue(directory: file("queue"), manager: manager)
        if ending == .error { await queue.close() }
        return queue
    }

    fileprivate func download() -> DownloadRequest { DownloadRequest(request(), destination: file("download")) }
}
