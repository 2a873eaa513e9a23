import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The request of an operation, and its body when it is needed anew.
extension URLConnectionOperation {
    /// Whether the request says that it must not go over a mobile network. One that a manager has prepared says nothing.
    package final var barsCellularAccess: Bool {
        core.withLock { core in
            guard case .foundation(let request) = core.request else { return false }
            return !request.allowsCellularAccess
        }
    }

    /// Changes the request. To be called before the operation starts.
    package final func changeRequest(_ change: (inout URLRequest) -> Void) {
        var request = request
        change(&request)
        let changed = request
        set(own: \.request, to: .foundation(changed))
    }

    /// A body stream that can be read from its start, in place of one that was read; nil where there is none. Calls the
    /// user's code.
    final func freshBodyStream(for stream: InputStream) -> InputStream? {
        if let delegate = delegate(interestedIn: .bodyStreams), let fresh = delegate.newBodyStream(of: self) {
            return fresh
        }
        return try? (stream as? any ReplayableBodyStream)?.replay()
    }

    /// Whether a body stream may be had anew.
    final func canReplay(_ stream: InputStream?) -> Bool {
        stream == nil || stream is any ReplayableBodyStream || delegate(interestedIn: .bodyStreams) != nil
    }
}
