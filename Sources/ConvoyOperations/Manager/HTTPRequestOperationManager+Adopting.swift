import ConvoySerialization
import Foundation
import FoundationNetworking

/// Operations of classes that the manager does not make itself.
extension HTTPRequestOperationManager {
    /// Gives a new operation the manager's settings and its challenge handler, as those have them that it makes itself.
    package final func adopt(_ operation: HTTPRequestOperation) {
        let (common, handlers) = settings.withLock { ($0.settingsOfNextOperation(), $0.handlers) }
        let old = operation.core.withLock { core in
            defer { core.common = common }
            return core.common
        }
        withExtendedLifetime(old) {}
        operation.beginToTell(common.values)
        handlers.give(to: operation)
    }

    /// An operation that is made, or one that fails with the error of its making.
    package final func makeOperation(_ make: () throws -> HTTPRequestOperation) -> HTTPRequestOperation {
        do {
            return try make()
        } catch {
            // A request that could not be made has no URL of its own.
            var request = URLRequest(url: baseURL ?? URL(fileURLWithPath: "/"))
            request.httpMethod = nil
            let operation = makeOperation(request: request)
            operation.fail(with: error)
            return operation
        }
    }

    /// Adds an operation to the queue, unless a queue has it, or may have it, or it has finished.
    package final func enqueueUnlessTaken(_ operation: HTTPRequestOperation) {
        guard !operation.isFinished, operation.claimForAwaiting() else { return }
        operation.enterCompletionGroup()
        currentQueue.addOperation(operation)
    }

    /// Sets over what the operations travel that are made from now on.
    package final func setTransport(_ transport: any Transport) {
        let old = settings.withLock { settings in
            let old = (settings.transport, settings.forgetShared())
            settings.transport = transport
            return old
        }
        withExtendedLifetime(old) {}
    }

    /// Sets whether the operations post notifications that are made from now on.
    package final func setPostsNotifications(_ posts: Bool) { change { $0.postsNotifications = posts } }

    /// A request without parameters as the manager's serializer makes it: with the header fields of all requests that may go
    /// where it leads.
    package final func makeRequest(_ method: HTTPMethod, _ url: URL) throws -> URLRequest {
        withoutSecretsOfOthers(try requestSerializer.request(method: method, url: url, parameters: nil, headers: [:]))
    }
}
