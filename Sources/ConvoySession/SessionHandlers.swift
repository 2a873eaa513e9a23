import ConvoyCache
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// The handlers of a session: the counterparts of `AFURLSessionManager`'s block setters.
struct SessionHandlers: Sendable {
    typealias AuthenticationHandler =
        @Sendable (AuthenticationChallenge, @escaping @Sendable (AuthenticationDisposition) -> Void) -> Void
    typealias TaskAuthenticationHandler =
        @Sendable (SessionTask, AuthenticationChallenge, @escaping @Sendable (AuthenticationDisposition) -> Void) -> Void

    var didBecomeInvalid: (@Sendable ((any Error)?) -> Void)?
    var authentication: AuthenticationHandler?
    var taskAuthentication: TaskAuthenticationHandler?
    var newBodyStream: (@Sendable (SessionTask) -> InputStream?)?
    var redirection: (@Sendable (SessionTask, HTTPURLResponse?, URLRequest) -> URLRequest?)?
    var didSendBodyData: (@Sendable (SessionTask, Int64, Int64, Int64) -> Void)?
    var didComplete: (@Sendable (SessionTask, (any Error)?) -> Void)?
    var didCollectMetrics: (@Sendable (SessionTask, OperationMetrics) -> Void)?
    var didReceiveResponse: (@Sendable (SessionDataTask, HTTPURLResponse) -> SessionResponseDisposition)?
    var didBecomeDownload: (@Sendable (SessionDataTask, SessionDownloadTask) -> Void)?
    var didReceiveData: (@Sendable (SessionDataTask, Data) -> Void)?
    var willCacheResponse: (@Sendable (SessionTask, CacheCandidate) -> CacheCandidate?)?
    var didFinishDownloading: (@Sendable (SessionDownloadTask, URL) -> URL?)?
    var didWriteData: (@Sendable (SessionDownloadTask, Int64, Int64, Int64) -> Void)?
    var didResume: (@Sendable (SessionDownloadTask, Int64, Int64) -> Void)?

    /// The callbacks of operations that the handlers need.
    func interests(in kind: HTTPRequestKind) -> OperationInterests {
        var interests: OperationInterests = []
        if redirection != nil { interests.insert(.redirects) }
        if authentication != nil || taskAuthentication != nil { interests.insert(.challenges) }
        if newBodyStream != nil { interests.insert(.bodyStreams) }
        if willCacheResponse != nil { interests.insert(.caching) }
        if didSendBodyData != nil { interests.insert(.progress) }
        if kind == .download {
            if didWriteData != nil || didResume != nil { interests.insert(.progress) }
        } else {
            if didReceiveResponse != nil { interests.insert(.responses) }
            if didReceiveData != nil { interests.insert(.data) }
        }
        return interests
    }
}

/// What to do with a data task after its response head. The counterpart of `URLSession.ResponseDisposition`.
public enum SessionResponseDisposition: Sendable, Hashable {
    /// The task continues.
    case allow
    /// The task fails with `URLError.cancelled`.
    case cancel
    /// The body is written to a file, and the task becomes a download task.
    case becomeDownload
}

/// The handlers of a manager, which its sessions share, with the callbacks that they need.
final class HandlerTable: Sendable {
    private let handlers = Locked(SessionHandlers())
    /// The interests of data and download tasks, atomic so that the network thread takes no lock.
    private let ofData = Atomic<UInt8>(0)
    private let ofDownloads = Atomic<UInt8>(0)

    var all: SessionHandlers { handlers.withLock { $0 } }

    func get<Handler: Sendable>(_ member: KeyPath<SessionHandlers, Handler?> & Sendable) -> Handler? {
        handlers.withLock { $0[keyPath: member] }
    }

    func set<Handler: Sendable>(
        _ member: WritableKeyPath<SessionHandlers, Handler?> & Sendable, _ handler: Handler?
    ) {
        change { $0[keyPath: member] = handler }
    }

    /// Releases all handlers.
    func removeAll() { change { $0 = SessionHandlers() } }

    private func change(_ body: (inout SessionHandlers) -> Void) {
        let old = handlers.withLock { handlers in
            let old = handlers
            body(&handlers)
            ofData.store(handlers.interests(in: .data).rawValue, ordering: .releasing)
            ofDownloads.store(handlers.interests(in: .download).rawValue, ordering: .releasing)
            return old
        }
        // The old handlers may own user objects, which must not be released under the lock.
        withExtendedLifetime(old) {}
    }

    func interests(in kind: HTTPRequestKind) -> OperationInterests {
        OperationInterests(
            rawValue: kind == .download ? ofDownloads.load(ordering: .acquiring) : ofData.load(ordering: .acquiring))
    }
}
