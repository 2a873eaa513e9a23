import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking

@testable import ConvoyRealtime

/// Records the calls of a source's handlers, in order.
final class EventRecorder: Sendable {
    private struct Record {
        var notes: [String] = []
        var events: [ServerSentEvent] = []
        var interruptions: [EventSourceInterruption] = []
    }

    private let record = Locked(Record())

    var events: [ServerSentEvent] { record.withLock { $0.events } }
    var data: [String] { record.withLock { $0.events.map(\.data) } }
    var interruptions: [EventSourceInterruption] { record.withLock { $0.interruptions } }
    /// The recorded calls as texts: the data of events, and the names of other calls.
    var notes: [String] { record.withLock { $0.notes } }

    func note(_ text: String) { record.withLock { $0.notes.append(text) } }

    func note(_ event: ServerSentEvent) {
        record.withLock { record in
            record.events.append(event)
            record.notes.append(event.data)
        }
    }

    func listen(to source: EventSource) {
        source.openHandler = { [self] _ in note("open") }
        source.eventHandler = { [self] in note($1) }
        source.reconnectHandler = { [self] _, interruption in
            record.withLock { record in
                record.interruptions.append(interruption)
                record.notes.append("lost")
            }
        }
        source.setCompletionHandler(
            success: { [self] _, _ in note("success") }, failure: { [self] _, _ in note("failure") })
    }
}

extension EventSource {
    /// Whether the transfer is waiting because the backlog is full.
    var waitsForRoom: Bool { feed.delivery.state.withLock { $0.room != nil } }

    /// Creates a source for tests, which reconnects immediately and calls its handlers on its own queue.
    static func test(_ url: URL, _ recorder: EventRecorder? = nil) -> EventSource {
        let source = EventSource(url: url)
        source.completionQueue = DispatchQueue(label: "handlers")
        source.retryInterval = 0.01
        recorder?.listen(to: source)
        return source
    }
}

extension TestServer.Response {
    /// Returns a stream of events that ends.
    static func events(_ text: String) -> Self { bytes(Data(text.utf8), type: "text/event-stream") }

    /// Returns a stream of events that does not end.
    static func openEvents(_ text: String = ": hello\n\n") -> Self {
        chunked([text], type: "text/event-stream").stalls(afterBytes: text.utf8.count)
    }

    /// The status that ends a source successfully.
    static var noMore: Self { .status(204) }
}
