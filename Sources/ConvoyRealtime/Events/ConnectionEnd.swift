import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// What is known of a connection of an event source, and what follows from its end (HTML, section 9.2.3).
struct ConnectionEnd {
    enum Outcome {
        /// The operation was paused, or cancelled.
        case stop
        /// The user has closed the source.
        case close
        /// The server wants no more connections: it has answered 204.
        case succeed
        case fail(any Error)
        /// The error is nil where the server has ended its response; `retryAfter` is what it has asked for, in seconds.
        case reconnect((any Error)?, retryAfter: TimeInterval?)
        /// The user has asked for another connection.
        case restart
    }

    /// Whether a response has come that is one of events.
    var wasOpen = false
    var hadEvents = false
    /// What was too long for the parser, where the source goes on after that.
    var excess: EventStreamError?
    /// Whether the user has ended it, for another one.
    var isRestart = false
    /// Why no further connection would help.
    var fatal: (any Error)?

    /// Failures before a response has come after which another try may succeed.
    private static let temporary = RetryPolicy.temporaryErrorCodes.union([.secureConnectionFailed])

    func outcome(of connection: HTTPRequestOperation?, reconnectsAfterServerErrors: Bool) -> Outcome {
        if let fatal { return .fail(fatal) }
        guard let connection else { return .fail(URLError(.unknown)) }
        let error = connection.error
        if wasOpen { return .reconnect(excess ?? error, retryAfter: nil) }
        if let head = connection.responseHead, head.statusCode != 200 {
            if head.statusCode == 204 { return .succeed }
            let failure = error as? HTTPError ?? head.refusal(error)
            guard reconnectsAfterServerErrors, RetryPolicy.temporaryStatusCodes.contains(head.statusCode) else {
                return .fail(failure)
            }
            return .reconnect(failure, retryAfter: head["Retry-After"].flatMap(RetryAfter.seconds))
        }
        guard let error else { return .reconnect(nil, retryAfter: nil) }
        guard let failure = error as? URLError, Self.temporary.contains(failure.code), failure.addressRefusal == nil,
            failure.serverCertificates == nil
        else { return .fail(error) }
        return .reconnect(failure, retryAfter: nil)
    }
}

extension HTTPResponseSerializer {
    /// Accepts the one status with which events come.
    static let ofEvents: HTTPResponseSerializer = {
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = [200]
        return serializer
    }()
}

extension ResponseHead {
    /// Whether the type is that of events, whatever its parameters are.
    var isOfEvents: Bool {
        MediaType.of(self["Content-Type"], is: "text/event-stream")
    }

    /// The error for a status whose body has not come as a whole.
    fileprivate func refusal(_ error: (any Error)?) -> any Error {
        do {
            try HTTPResponseSerializer.ofEvents.validate(urlResponse, data: nil)
        } catch {
            return error
        }
        return error ?? URLError(.badServerResponse)
    }
}

extension URLRequest {
    /// The request of a connection.
    func askingForEvents(after lastEventID: String) -> URLRequest {
        var request = self
        if request.value(forHTTPHeaderField: "Accept") == nil {
            request.setValue("text/event-stream", forHTTPHeaderField: "Accept")
        }
        if request.value(forHTTPHeaderField: "Cache-Control") == nil {
            // As browsers do. No cache of the library stores it either.
            request.setValue("no-cache", forHTTPHeaderField: "Cache-Control")
        }
        request.setValue(nil, forHTTPHeaderField: "Last-Event-ID")
        // One that no field can carry is not sent.
        if let value = EchoedValue(lastEventID.utf8) { request.setValue(value.text, forHTTPHeaderField: "Last-Event-ID") }
        return request
    }
}
