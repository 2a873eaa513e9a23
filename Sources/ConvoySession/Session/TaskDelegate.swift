import ConvoyCache
import ConvoyOperations
import ConvoyReachability
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Asks a session's handlers about a task, and tells them of it, each on the session's serial queue.
final class TaskDelegate: OperationDelegate {
    let record: TaskRecord
    private let session: Session
    private let isBarredFromCellular: Bool

    /// - Parameter isBarredFromCellular: whether the task must not go over a mobile network.
    init(_ record: TaskRecord, _ session: Session, isBarredFromCellular: Bool) {
        (self.record, self.session, self.isBarredFromCellular) = (record, session, isBarredFromCellular)
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
            "The way to the host is over a mobile network, which is not allowed.")
    }

    /// Calls a handler on the session's queue with the task; does nothing if there is none by then.
    private func tell<Handler: Sendable>(
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
        tell(operation, \.redirection) { handler, task in
            decide(handler.map { $0(task, response, request) } ?? request)
        }
    }

    func operation(
        _ operation: URLConnectionOperation, didReceive challenge: AuthenticationChallenge,
        answer: @escaping @Sendable (AuthenticationDisposition) -> Void
    ) {
        let isOfConnection = [.ntlm, .negotiate].contains(challenge.protectionSpace.method)
        let ofSession = session.handlers.get(\.authentication)
        tell(operation, \.taskAuthentication) { handler, task in
            // As `URLSession` does it: what authenticates a connection is for the session, if it has a handler.
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
        // The stream is passed on to the operation, and used by nobody else.
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
        tell(operation, \.didReceiveResponse) { handler, task in
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

    /// Lets the body of a data task go into a file.
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
                // On a thread that may block.
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
        tell(operation, \.didReceiveData) { handler, task in
            if let task = task as? SessionDataTask { handler?(task, data) }
            record.release(data.count)
        }
        return record.hold(data.count, then: then)
    }

    func operation(_ operation: URLConnectionOperation, didReceive count: Int64, total: Int64, expected: Int64?) {
        guard record.kind == .download, record.note(.down, count, total: total, expected: expected) else { return }
        tell(operation, \.didWriteData) { [record] handler, task in
            let moved = record.takeMoved(.down)
            guard let task = task as? SessionDownloadTask else { return }
            handler?(task, moved.bytes, moved.total, moved.expected ?? SessionTask.transferSizeUnknown)
        }
    }

    func operation(_ operation: URLConnectionOperation, didSend count: Int64, total: Int64, expected: Int64?) {
        guard record.note(.up, count, total: total, expected: expected) else { return }
        tell(operation, \.didSendBodyData) { [record] handler, task in
            let moved = record.takeMoved(.up)
            handler?(task, moved.bytes, moved.total, moved.expected ?? SessionTask.transferSizeUnknown)
        }
    }

    func operation(_ operation: URLConnectionOperation, didResumeAt offset: Int64, expected: Int64?) {
        tell(operation, \.didResume) { handler, task in
            guard let task = task as? SessionDownloadTask else { return }
            handler?(task, offset, expected ?? SessionTask.transferSizeUnknown)
        }
    }
}
