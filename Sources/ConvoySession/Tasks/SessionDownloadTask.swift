import ConvoyDownloads
import ConvoyOperations
import Foundation

/// A task whose response goes into a file. The counterpart of `URLSessionDownloadTask`.
///
/// The operation of one that a session's `downloadTask(…)` makes is a `DownloadOperation`: its settings are those of all
/// downloads (checksums, mirrors, segments), until the task is resumed.
public final class SessionDownloadTask: SessionTask, @unchecked Sendable {
    /// The file, when the task has ended with one.
    public var fileURL: URL? {
        guard operation.isFinished, operation.error == nil else { return nil }
        return operation.responseObject as? URL ?? record.file
    }

    /// What the task has left, to go on with it in another one: of a task that has failed, or was cancelled by
    /// ``cancel(byProducingResumeData:)``. nil before its end, and where there is nothing to go on from.
    public var resumeData: ResumeData? {
        guard operation.isFinished, record.keepsPartialFile || !operation.isCancelled else { return nil }
        return (operation as? DownloadOperation)?.resumeData
    }

    /// Cancels the task, and keeps what has arrived.
    ///
    /// - Parameter handler: called once, when the task has ended, on the session's serial queue of handlers; with nil where
    ///   there is nothing to go on from: no byte has arrived, the server does not say what identifies the file, the task has
    ///   ended with its file, or was cancelled before; and for a data task that has become a download.
    public func cancel(byProducingResumeData handler: @escaping @Sendable (ResumeData?) -> Void) {
        // Before the cancellation, so that its end finds it.
        if !operation.isCancelled, !operation.isFinished { record.keepPartialFile() }
        let (session, record) = (record.session, record)
        operation.whenDelivered { [operation] in
            session.handlerQueue.async {
                let isKept = operation.isCancelled && record.keepsPartialFile
                handler(isKept ? (operation as? DownloadOperation)?.resumeData : nil)
            }
        }
        cancel()
    }

    /// The same with async/await.
    public func cancelProducingResumeData() async -> ResumeData? {
        await withCheckedContinuation { continuation in
            cancel { continuation.resume(returning: $0) }
        }
    }
}
