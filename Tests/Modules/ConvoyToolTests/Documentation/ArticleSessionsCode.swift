import Convoy
import Foundation
import FoundationNetworking

// The code of the article about sessions; see ArticleCode.swift.

extension ArticleCode {
    static func session(_ url: URL) async throws -> (manager: HTTPSessionManager, user: User) {
        // Article: Sessions
        var configuration = SessionConfiguration.ephemeral
        configuration.httpAdditionalHeaders["X-Client"] = "app/1"
        configuration.timeoutIntervalForResource = 600
        let manager = HTTPSessionManager(
            baseURL: url, configuration: configuration, completionQueue: DispatchQueue(label: "app.network"))

        manager.post(
            "users", parameters: ["name": "Grace"],
            success: { task, object in print(task.response?.statusCode ?? 0, object ?? "nothing") },
            failure: { task, error in print(error.localizedDescription) })
        let user: User = try await manager.get("users/1")
        // Article: end
        return (manager, user)
    }

    static func tasks(_ manager: HTTPSessionManager, _ request: URLRequest, _ other: URLRequest) async throws {
        // Article: Sessions
        let first = manager.dataTask(with: request) { response, object, error in
            print(response?.statusCode ?? 0, error?.localizedDescription ?? "no error")
        }
        let second = manager.dataTask(with: other)
        second.priority = SessionTask.highPriority
        second.operation.addDependency(first.operation)
        for task in manager.tasks { task.resume() }
        try await second.finished()
        // Article: end
    }

    static func resumeData(
        _ manager: HTTPSessionManager, _ request: URLRequest, _ file: URL, _ note: URL,
        _ whenItHasBegun: (SessionTask) async throws -> Void
    ) async throws -> SessionDownloadTask {
        // Article: Sessions
        let download = manager.downloadTask(
            with: request, progress: { print($0.bytesReceived) }, destination: { _, _ in file }
        ) { response, file, error in
            print(file?.path ?? "no file")
        }
        download.resume()
        // Article: end
        try await whenItHasBegun(download)
        // Article: Sessions
        if let rest = await download.cancelProducingResumeData() {
            try rest.data.write(to: note)
        }
        // Article: end
        // Article: Sessions
        let rest = try Data(contentsOf: note)
        let task = try manager.downloadTask(withResumeData: rest, destination: { _, _ in file }) { _, file, error in
            print(file?.path ?? "no file")
        }
        task.resume()
        try await task.finished()
        // Article: end
        return task
    }

    static func handlers(_ manager: HTTPSessionManager, _ folder: URL) {
        // Article: Sessions
        manager.taskWillPerformHTTPRedirectionHandler = { task, response, request in
            request.url?.host == task.originalRequest.url?.host ? request : nil
        }
        manager.dataTaskDidReceiveResponseHandler = { task, response in
            response.expectedContentLength > 1_000_000 ? .becomeDownload : .allow
        }
        manager.downloadTaskDidFinishDownloadingHandler = { task, location in
            folder.appendingPathComponent("\(task.taskIdentifier)")
        }
        manager.taskDidCompleteHandler = { task, error in
            print(task, error?.localizedDescription ?? "no error")
        }
        // Article: end
    }

    static func invalidation(_ manager: HTTPSessionManager) {
        // Article: Sessions
        manager.sessionDidBecomeInvalidHandler = { _ in print("all tasks have ended") }
        manager.invalidate(cancellingTasks: false)
        // Article: end
    }

    // MARK: From AFNetworking

    static func afNetworkingSession(_ manager: HTTPSessionManager, _ request: URLRequest, _ file: URL) async throws {
        // Article: FromAFNetworking
        // manager.setTaskDidCompleteBlock { session, task, error in … }
        manager.taskDidCompleteHandler = { task, error in print(task, error?.localizedDescription ?? "no error") }

        // manager.downloadTaskWithRequest(request, progress: nil, destination: …, completionHandler: …).resume()
        manager.downloadTask(with: request, destination: { temporaryFile, response in file }) { response, file, error in
            print(file?.path ?? "no file")
        }.resume()
        // Article: end
    }

    static func inPlaceOfBackground(
        _ folder: URL, _ source: URL, _ file: URL, _ post: URLRequest, _ json: Data
    ) async throws -> DownloadQueue {
        // Article: FromAFNetworking
        // NSURLSessionConfiguration.backgroundSessionConfigurationWithIdentifier("com.example.sync")
        let queue = try DownloadQueue(directory: folder, manager: HTTPRequestOperationManager())
        queue.start()  // continues what the last process left unfinished

        // manager.downloadTaskWithRequest(…).resume(), and manager.uploadTaskWithRequest(…).resume()
        try await queue.enqueue([DownloadRequest(source, destination: file), OutboxRequest(post, body: .data(json))])
        // Article: end
        return queue
    }
}
