import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A sink that parses the body of a connection as it arrives. Used on the network thread only.
final class EventBody: BodySink, @unchecked Sendable {
    private let feed: EventFeed
    private let number: Int
    private var parser: EventStreamParser
    private var failed = false
    private var expectedCount = 0

    init(of feed: EventFeed, number: Int, parser: EventStreamParser) {
        self.feed = feed
        self.number = number
        self.parser = parser
    }

    var isImmediate: Bool { true }
    var isPaced: Bool { true }

    func accepts(_ response: ResponseHead) -> Bool? { feed.accepts(response, of: number) }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        guard count > 0 else { return }
        throw URLError(
            .cannotWriteToFile, url: nil, "Events that have been delivered cannot be discarded.",
            underlying: EventSourceError.bodyCannotBeSentAgain)
    }

    func write(_ bytes: UnsafeRawBufferPointer) {
        guard !failed else { return }
        var events: [ServerSentEvent] = []
        // Reserve space for as many events as the last piece contained.
        events.reserveCapacity(expectedCount)
        defer { expectedCount = events.count }
        parser.keepsComments = feed.delivery.wantsComments.load(ordering: .relaxed)
        var failure: EventSourceError?
        do throws(EventSourceError) { try parser.parse(bytes, into: &events) } catch { failure = error }
        feed.didReceive(events, parser, of: number)
        guard let failure else { return }
        failed = true
        feed.fail(failure, of: number)
    }

    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool { feed.delivery.waitsForRoom(then: then) }
}

/// The end of an event source's connection, from which the next step is determined (HTML, section 9.2.3).
struct ConnectionEnd {
    enum Outcome {
        /// The operation was paused or cancelled.
        case stop
        /// The user has closed the source.
        case close
        /// The server responded with 204, which ends the source successfully.
        case succeed
        case fail(any Error)
        /// The source reconnects. The error is nil if the server has ended its response; `retryAfter` is the server's
        /// `Retry-After`, in seconds.
        case reconnect((any Error)?, retryAfter: TimeInterval?)
        /// The user has called `restart()`.
        case restart
    }

    /// Whether a response with events has arrived.
    var wasOpen = false
    /// Whether the connection ended while the source was paused, which is handled after the pause.
    var cameDuringPause = false
    var hadEvents = false
    /// The parser's error for a line or event that is too long, if the source reconnects after it.
    var excess: EventSourceError?
    /// Whether the user has restarted the source.
    var isRestart = false
    /// An error that reconnecting cannot fix.
    var fatal: (any Error)?

    /// The errors that may be temporary if they occur before a response.
    private static let temporary = RetryPolicy.temporaryErrorCodes.union([.secureConnectionFailed])

    /// Returns the next step after the end of the connection.
    ///
    /// - Parameters:
    ///   - connection: The operation of the connection, which has finished.
    ///   - mayRepeat: Whether the request may be sent again although part of it has been sent.
    ///   - reconnectsAfterServerErrors: See ``EventSource/reconnectsAfterServerErrors``.
    func outcome(
        of connection: HTTPRequestOperation?, mayRepeat: Bool, reconnectsAfterServerErrors: Bool
    ) -> Outcome {
        let outcome = outcome(of: connection, reconnectsAfterServerErrors: reconnectsAfterServerErrors)
        guard case .reconnect(let error, _) = outcome, !mayRepeat, connection?.wasCertainlyNotSent != true else {
            return outcome
        }
        return error.map { .fail($0) } ?? .succeed
    }

    private func outcome(of connection: HTTPRequestOperation?, reconnectsAfterServerErrors: Bool) -> Outcome {
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
    /// A serializer that accepts only the status 200.
    static let ofEvents: HTTPResponseSerializer = {
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = [200]
        return serializer
    }()
}

extension ResponseHead {
    /// Whether the content type is `text/event-stream`, with any parameters.
    var isOfEvents: Bool {
        MediaType.of(self["Content-Type"], is: "text/event-stream")
    }

    /// Returns the error for an unacceptable status, even if its body is incomplete.
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
    /// Returns the request with the header fields for receiving events.
    func askingForEvents(after lastEventID: String) -> URLRequest {
        var request = self
        if request.value(forHTTPHeaderField: "Accept") == nil {
            request.setValue("text/event-stream", forHTTPHeaderField: "Accept")
        }
        if request.value(forHTTPHeaderField: "Cache-Control") == nil {
            // Browsers send this field as well. Convoy's cache does not store the response either.
            request.setValue("no-cache", forHTTPHeaderField: "Cache-Control")
        }
        request.setValue(nil, forHTTPHeaderField: "Last-Event-ID")
        // An identifier that is not a valid field value is not sent.
        if let value = SafeFieldValue(lastEventID.utf8) { request.setValue(value.text, forHTTPHeaderField: "Last-Event-ID") }
        return request
    }
}
