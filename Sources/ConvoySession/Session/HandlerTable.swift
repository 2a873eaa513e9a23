import ConvoyOperations
import ConvoySupport
import Synchronization

/// The handlers of a manager, which its sessions share, and what they make them be asked.
final class HandlerTable: Sendable {
    private let handlers = Locked(SessionHandlers())
    /// The interests of data tasks and of download tasks, so that the network thread takes no lock.
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

    /// Lets go of all.
    func removeAll() { change { $0 = SessionHandlers() } }

    private func change(_ body: (inout SessionHandlers) -> Void) {
        let old = handlers.withLock { handlers in
            let old = handlers
            body(&handlers)
            ofData.store(handlers.interests(in: .data).rawValue, ordering: .releasing)
            ofDownloads.store(handlers.interests(in: .download).rawValue, ordering: .releasing)
            return old
        }
        // It may be the last to refer to a user's objects: not under the lock.
        withExtendedLifetime(old) {}
    }

    func interests(in kind: HTTPRequestKind) -> OperationInterests {
        OperationInterests(
            rawValue: kind == .download ? ofDownloads.load(ordering: .acquiring) : ofData.load(ordering: .acquiring))
    }
}
