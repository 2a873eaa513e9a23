import ConvoyOperations
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Takes the body of one connection, and parses it as it comes, on the network thread, which alone uses it.
final class EventBody: BodySink, @unchecked Sendable {
    private let feed: EventFeed
    private let number: Int
    private var parser: EventStreamParser
    private var failed = false
    private var expectedCount = 0

    init(of feed: EventFeed, number: Int, parser: EventStreamParser) {
        (self.feed, self.number, self.parser) = (feed, number, parser)
    }

    var isImmediate: Bool { true }
    var isPaced: Bool { true }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        guard count > 0 else { return }
        throw URLError(
            .cannotWriteToFile, url: nil, "Events that were delivered cannot be taken back.",
            underlying: EventSourceError.bodyCannotBeSentAgain)
    }

    func write(_ bytes: UnsafeRawBufferPointer) {
        guard !failed else { return }
        var events: [ServerSentEvent] = []
        // As many as there were in the last piece, perhaps.
        events.reserveCapacity(expectedCount)
        defer { expectedCount = events.count }
        parser.keepsComments = feed.delivery.wantsComments.load(ordering: .relaxed)
        var failure: EventStreamError?
        do throws(EventStreamError) { try parser.parse(bytes, into: &events) } catch { failure = error }
        feed.didReceive(events, parser, of: number)
        guard let failure else { return }
        failed = true
        feed.fail(failure, of: number)
    }

    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool { feed.delivery.waitsForRoom(then: then) }
}
