import ConvoyCache
import ConvoyOperations
import ConvoyReachability
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A delegate that calls a session's handlers for a task, on the session's serial queue.
final class TaskDelegate: OperationDelegate {
    let record: TaskRecord
    private let session: Session
    private let isBarredFromCellular: Bool

    /// - Parameter isBarredFromCellular: Whether the task must not use a mobile network.
    init(_ record: TaskRecord, _ session: Session, isBarredFromCellular: Bool) {
        self.record = record
        self.session = session
        self.isBarredFromCellular = isBarredFromCellular
    }

    func interests(in operation: URLConnectionOperation) -> OperationInterests {
        let interests = session.handlers.interests(in: record.kind)
        return isBarredFromCellular ? interests.union(.beginning) : interests
    }

    func willBegin(_ operation: URLConnectionOperation) throws {
        guard let target = operation.request.url.flatMap({ Target($0) }), NetworkTarget(host: target.bareHost).isOverCellular
        else { return }
        throw URLError(
            .dataNotAllowed, url: operation.request.url,
            "The route to the host uses a mobile network, which is not allowed.")
    }

    /// Calls a handler on the session's queue with the task, if the handler is still set.
    private func call<Handler: Sendable>(
        _ operation: URLConnectionOperation, _ member: KeyPath<SessionHandlers, Handler?> & Sendable,
        _ body: @escaping @Sendable (Handler?, SessionTask) -> Void
    ) {
        guard let operation = operation as? HTTPRequestOperation else { return }
        let (record, handlers) = (record, session.handlers)
        session.handlerQueue.async { body(handlers.get(member), record.task(of: operation)) }
    }

    // MARK: Decisions

    func operation(
        _ operation: URLConnectionOperation, willFollow request: URLRequest, after response: HTTPURLResponse?,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        call(operation, \.redirection) { handler, task in
            decide(handler.map { $0(task, response, request) } ?? request)
        }
    }

    func operation(
        _ operation: URLConnectionOperation, didReceive challenge: AuthenticationChallenge,
        answer: @escaping @Sendable (AuthenticationDisposition) -> Void
    ) {
        let isOfConnection = [.ntlm, .negotiate].contains(challenge.protectionSpace.method)
        let ofSession = session.handlers.get(\.authentication)
        call(operation, \.taskAuthentication) { handler, task in
            // As in `URLSession`, challenges for a connection go to the session's handler if one is set.
            if let ofSession, isOfConnection || handler == nil {
                ofSession(challenge, answer)
            } else if let handler {
                handler(task, challenge, answer)
            } else {
                answer(.performDefaultHandling)
            }
        }
    }

    func newBodyStream(of operation: URLConnectionOperation) -> InputStream? {
        guard let operation = operation as? HTTPRequestOperation else { return nil }
        // The stream is passed to the operation, which is its only user.
        nonisolated(unsafe) var stream: InputStream?
        session.handlerQueue.sync {
            stream = session.handlers.get(\.newBodyStream)?(record.task(of: operation))
        }
        return stream
    }

    func operation(_ operation: URLConnectionOperation, willCache candidate: CacheCandidate) -> CacheCandidate? {
        guard let operation = operation as? HTTPRequestOperation else { return candidate }
        return session.handlerQueue.sync {
            guard let handler = session.handlers.get(\.willCacheResponse) else { return candidate }
            return handler(record.task(of: operation), candidate)
        }
    }

    func operation(
        _ operation: URLConnectionOperation, didReceive response: ResponseHead,
        decide: @escaping @Sendable (ResponseDecision) -> Void
    ) {
        let (record, session) = (record, session)
        call(operation, \.didReceiveResponse) { handler, task in
            guard let handler, let task = task as? SessionDataTask, let response = response.urlResponse else {
                return decide(.allow)
            }
            switch handler(task, response) {
            case .allow: decide(.allow)
            case .cancel: decide(.cancel)
            case .becomeDownload:
                guard !task.operation.isCancelled, record.becomeDownload() else { return decide(.allow) }
                decide(Self.download(task, record, session))
            }
        }
    }

    /// Redirects the body of a data task to a file.
    private static func download(_ task: SessionDataTask, _ record: TaskRecord, _ session: Session) -> ResponseDecision {
        let operation = task.operation
        operation.responseSerializer = HTTPResponseSerializer(statusesOf: operation.responseSerializer)
        if let download = record.task(of: operation) as? SessionDownloadTask {
            session.handlers.get(\.didBecomeDownload)?(task, download)
        }
        let file = session.files.newFile()
        return .divert(
            FileSink(replacing: file, preparing: session.files.prepare) { [weak operation] in
                guard let operation else { return }
                // Wait for the file to be moved, because this thread may block.
                let isPlaced = DispatchSemaphore(value: 0)
                let result = Locked<Result<URL, any Error>>(.success(file))
                session.place(file, of: operation, record, operation.response) { placed in
                    result.withLock { $0 = placed }
                    isPlaced.signal()
                }
                isPlaced.wait()
                record.file = try result.withLock { $0 }.get()
            })
    }

    // MARK: Bytes

    func operation(
        _ operation: URLConnectionOperation, didReceive bytes: UnsafeRawBufferPointer,
        then: @escaping @Sendable () -> Void
    ) -> Bool {
        let (record, data) = (record, Data(bytes))
        call(operation, \.didReceiveData) { handler, task in
            if let task = task as? SessionDataTask { handler?(task, data) }
            record.release(data.count)
        }
        return record.hold(data.count, then: then)
    }

    func operation(_ operation: URLConnectionOperation, didReceive count: Int64, total: Int64, expected: Int64?) {
        guard record.kind == .download, record.note(.down, count, total: total, expected: expected) else { return }
        call(operation, \.didWriteData) { [record] handler, task in
            let moved = record.takeMoved(.down)
            guard let task = task as? SessionDownloadTask else { return }
            handler?(task, moved.bytes, moved.total, moved.expected ?? SessionTask.transferSizeUnknown)
        }
    }

    func operation(_ operation: URLConnectionOperation, didSend count: Int64, total: Int64, expected: Int64?) {
        guard record.note(.up, count, total: total, expected: expected) else { return }
        call(operation, \.didSendBodyData) { [record] handler, task in
            let moved = record.takeMoved(.up)
            handler?(task, moved.bytes, moved.total, moved.expected ?? SessionTask.transferSizeUnknown)
        }
    }

    func operation(_ operation: URLConnectionOperation, didResumeAt offset: Int64, expected: Int64?) {
        call(operation, \.didResume) { handler, task in
            guard let task = task as? SessionDownloadTask else { return }
            handler?(task, offset, expected ?? SessionTask.transferSizeUnknown)
        }
    }
}

extension Notification.Name {
    /// Posted when a task has been resumed. `object` is the task. Like all of these notifications, it is posted to
    /// `NotificationCenter.default` on the session's handler queue.
    ///
    /// The raw values are those of AFNetworking. This notification, ``networkingTaskDidSuspend`` and
    /// ``networkingTaskDidComplete`` are posted only if the manager has `postsNotifications` set.
    public static let networkingTaskDidResume = Notification.Name("com.alamofire.networking.task.resume")

    /// Posted when a task has been suspended, if the manager has `postsNotifications` set. `object` is the task.
    public static let networkingTaskDidSuspend = Notification.Name("com.alamofire.networking.task.suspend")

    /// Posted when a task has ended and its own handlers have run, if the manager has `postsNotifications` set.
    /// `object` is the task, and `userInfo` has the keys of ``TaskNotificationKey``.
    public static let networkingTaskDidComplete = Notification.Name("com.alamofire.networking.task.complete")

    /// Posted when a session has become invalid. `object` is its manager, unless it has been released.
    public static let networkingSessionDidInvalidate = Notification.Name("com.alamofire.networking.session.invalidate")

    /// Posted when the file of a download could not be moved to its destination. `object` is the task, which fails.
    /// `userInfo` contains the error and the URL of the file, which is kept.
    public static let networkingDownloadTaskDidFailToMoveFile = Notification.Name(
        "com.alamofire.networking.session.download.file-manager-error")

    /// Posted when the file of a download has been moved to its destination. `object` is the task.
    public static let networkingDownloadTaskDidMoveFile = Notification.Name(
        "com.alamofire.networking.session.download.file-manager-succeed")
}

/// The keys of the `userInfo` of task notifications.
public enum TaskNotificationKey {
    /// The object created by the response serializer; absent if it created none.
    public static let serializedResponse = "com.alamofire.networking.task.complete.serializedresponse"
    /// The serializer that validated and parsed the response.
    public static let responseSerializer = "com.alamofire.networking.task.complete.responseserializer"
    /// The body, as `Data`; absent for a download.
    public static let responseData = "com.alamofire.networking.complete.finish.responsedata"
    /// The error; absent after a success.
    public static let error = "com.alamofire.networking.task.complete.error"
    /// The URL of the file of a download.
    public static let assetPath = "com.alamofire.networking.task.complete.assetpath"
    /// The metrics, as `OperationMetrics`; absent unless collected.
    public static let metrics = "com.alamofire.networking.complete.sessiontaskmetrics"
}
