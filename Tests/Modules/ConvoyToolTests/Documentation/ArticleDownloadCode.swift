import Convoy
import Foundation
import FoundationNetworking

// The code of the articles about downloads and uploads; see ArticleCode.swift.

extension ArticleCode {
    static func download(
        _ manager: HTTPRequestOperationManager, _ file: URL, _ checksum: Checksum
    ) async throws -> DownloadOperation {
        // Article: Downloads
        let download = try manager.makeDownload("archive", to: file)
        download.existingFilePolicy = .replace
        download.checksum = checksum
        download.segmentCount = 4
        manager.enqueue(download)
        for await progress in download.downloadProgressUpdates {
            print(progress.bytesReceived, progress.bytesPerSecond ?? 0, progress.timeRemaining ?? .infinity)
        }
        try await download.finished()
        // Article: end
        return download
    }

    static func upload(_ manager: HTTPRequestOperationManager, _ files: URL, _ film: URL) -> UploadOperation {
        // Article: Uploads
        let upload = UploadOperation(request: URLRequest(url: files), file: film)
        upload.retryPolicy = RetryPolicy()
        manager.enqueue([upload])
        upload.pause()
        upload.resume()
        // Article: end
        return upload
    }

    static func metalink(_ document: Data, _ directory: URL) throws -> [DownloadOperation] {
        // Article: Downloads
        let files = try Metalink(parsing: document).files
        let downloads = try files.map { try DownloadOperation($0, directory: directory) }
        // Article: end
        return downloads
    }

    static func rates(_ manager: HTTPRequestOperationManager, _ download: DownloadOperation) {
        // Article: Downloads
        RateLimit.shared.bytesPerSecond = 10_000_000
        manager.receiveRateLimit = RateLimit(bytesPerSecond: 4_000_000)
        download.receiveRateLimit = RateLimit(bytesPerSecond: 1_000_000)
        manager.requestOperationQueue?.maximumStartRate = StartRate(perSecond: 20, burst: 5)
        // Article: end
    }

    static func downloadQueue(
        _ manager: HTTPRequestOperationManager, _ folder: URL, _ source: URL, _ file: URL, _ post: URLRequest,
        _ json: Data
    ) async throws -> DownloadQueue {
        // Article: Downloads
        let queue = try DownloadQueue(directory: folder, manager: manager) { operation, entry in
            operation.setCompletionHandler(failure: { _, error in print("\(entry.url) failed: \(error)") })
        }
        queue.start()
        let photo = DownloadRequest(source, destination: file)
        var receipt = OutboxRequest(post, body: .data(json))
        receipt.dependencies = [photo.id]
        try await queue.enqueue([photo, receipt])
        // Article: end
        return queue
    }
}
