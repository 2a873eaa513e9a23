import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// Where the files of downloads are to be.
extension Session {
    /// Asks for the place of a file that is whole, and moves it there. Any thread.
    ///
    /// - Parameter answer: called once with the file's place, on a thread that may block.
    func place(
        _ file: URL, of operation: HTTPRequestOperation, _ record: TaskRecord, _ response: HTTPURLResponse?,
        _ answer: @escaping @Sendable (Result<URL, any Error>) -> Void
    ) {
        handlerQueue.async { [self] in
            guard let task = record.task(of: operation) as? SessionDownloadTask else { return answer(.success(file)) }
            // Nobody wants it any more.
            if operation.isCancelled { return discard(file, answer) }
            let ofSession = handlers.get(\.didFinishDownloading)?(task, file)
            guard let place = ofSession ?? record.destination?(file, response) else { return answer(.success(file)) }
            BlockingWorkers.shared.perform { [self] in
                if operation.isCancelled { return discard(file, answer) }
                do {
                    try FileRelocation.move(file, to: place)
                    post(.networkingDownloadTaskDidMoveFile, of: task, [TaskNotificationKey.assetPath: place])
                    answer(.success(place))
                } catch {
                    let facts: [String: any Sendable] = [
                        TaskNotificationKey.assetPath: file, TaskNotificationKey.error: error,
                    ]
                    post(.networkingDownloadTaskDidFailToMoveFile, of: task, facts)
                    answer(.failure(error))
                }
            }
        }
    }

    private func discard(_ file: URL, _ answer: @escaping @Sendable (Result<URL, any Error>) -> Void) {
        BlockingWorkers.shared.perform {
            try? FileManager.default.removeItem(at: file)
            answer(.failure(URLError(.cancelled)))
        }
    }

    /// A download into a temporary file, which is moved when it is whole. Its task is suspended.
    ///
    /// - Parameter name: the name of a partial file to go on with; nil for a new one.
    func makeDownload(
        _ request: URLRequest, resuming name: String?, _ destination: DownloadDestination?
    ) -> (TaskRecord, DownloadOperation) {
        let download = DownloadOperation(request: request)
        giveSettings(to: download)
        download.pause()
        download.destination = name.map(files.file) ?? files.newFile()
        download.usesServerFileName = false
        do {
            try files.prepare()
        } catch {
            download.fail(with: error)
        }
        let record = adopt(download, as: .download)
        record.destination = destination
        download.relocation = { [weak download, weak record, self] file, response, answer in
            guard let download, let record else { return answer(.success(file)) }
            place(file, of: download, record, response, answer)
        }
        return (record, download)
    }
}
