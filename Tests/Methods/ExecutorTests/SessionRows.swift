import ConvoySession
import Foundation

/// The functions of session tasks.
enum SessionRows {
    static let all = [
        row("SessionTask.finished()") { actor, attempt in
            defer { attempt.check(actor) }
            let session = URLSessionManager()
            let task = session.dataTask(with: attempt.request())
            task.resume()
            try await task.finished()
        },
        row("SessionDownloadTask.cancelProducingResumeData()", [.success]) { actor, attempt in
            defer { attempt.check(actor) }
            let session = URLSessionManager()
            let task = session.downloadTask(with: attempt.request())
            task.resume()
            _ = await task.cancelProducingResumeData()
        },
        row("URLSessionManager.resumeData(ofInterruptedDownload:)", [.success]) { actor, attempt in
            defer { attempt.check(actor) }
            _ = await URLSessionManager().resumeData(ofInterruptedDownload: attempt.url())
        },
    ]
}
