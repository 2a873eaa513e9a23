import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation

/// Takes the body of one connection, and parses it as it comes, on the network thread.
final class EventBodyStream: OutputStream, PacedOutputStream, RewindableOutputStream {
    private let feed: EventFeed?
    private let number: Int
    private var parser: EventStreamParser
    private var failed = false
    private var expectedCount = 0

    init(feed: EventFeed, number: Int, parser: EventStreamParser) {
        (self.feed, self.number, self.parser) = (feed, number, parser)
        super.init(toMemory: ())
    }

    /// Foundation demands it of every output stream. Nobody gets what is written to this one.
    required init(toMemory: ()) {
        (feed, number, parser) = (nil, 0, EventStreamParser())
        super.init(toMemory: ())
    }

    var isOnLocalDisk: Bool { true }
    override var streamStatus: Stream.Status { .open }
    override var streamError: (any Error)? { nil }
    override var hasSpaceAvailable: Bool { true }
    override func open() {}
    override func close() {}

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        guard !failed else { return length }
        var events: [ServerSentEvent] = []
        // As many as there were in the last piece, perhaps.
        events.reserveCapacity(expectedCount)
        defer { expectedCount = events.count }
        parser.keepsComments = feed?.delivery.wantsComments.load(ordering: .relaxed) ?? false
        do throws(EventStreamError) {
            try parser.parse(UnsafeRawBufferPointer(start: buffer, count: length), into: &events)
        } catch {
            failed = true
            feed?.didReceive(events, parser, of: number)
            feed?.fail(error, of: number)
            return length
        }
        feed?.didReceive(events, parser, of: number)
        return length
    }

    func accept(_ response: ResponseHead) {}

    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool {
        feed?.delivery.waitsForRoom(then: then) ?? false
    }

    func rewind() throws { throw EventSourceError.bodyCannotBeSentAgain }
}
