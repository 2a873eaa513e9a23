import ConvoyRealtime
import ConvoyTestSupport
import Foundation
import Testing

@Suite struct EventStreamParserTests {
    private func events(_ pieces: [Data], _ parser: inout EventStreamParser) throws -> [ServerSentEvent] {
        try pieces.flatMap { try parser.parse($0) }
    }

    private func events(_ text: String) throws -> [ServerSentEvent] {
        var parser = EventStreamParser()
        return try parser.parse(Data(text.utf8))
    }

    @Test(.enabled(if: EventVector.isThere, Comment(rawValue: EventVector.hint)))
    func `the streams of the web platform tests yield their events for any division of the bytes`() throws {
        let vectors = try EventVector.all()
        #expect(vectors.count >= 27)
        for vector in vectors {
            for pieces in vector.chunkings {
                var parser = EventStreamParser()
                let found = try events(pieces, &parser).map(EventVector.Event.init)
                #expect(found == vector.events, "\(vector)")
                if let retry = vector.retry { #expect(parser.retryInterval == retry / 1000, "\(vector)") }
                if let last = vector.lastEventIdAtReconnect { #expect(parser.lastEventID == last, "\(vector)") }
            }
        }
    }

    @Test(.enabled(if: EventVector.isThere, Comment(rawValue: EventVector.hint)))
    func `a stream cut at any byte yields its complete events`() throws {
        for vector in try EventVector.all() {
            for cut in 0...vector.stream.count {
                var parser = EventStreamParser()
                let found = try parser.parse(vector.stream.prefix(cut)).map(EventVector.Event.init)
                #expect(found == Array(vector.events.prefix(found.count)), "\(vector) cut at \(cut)")
                // The rest of the stream produces the remaining events.
                let rest = try parser.parse(vector.stream.dropFirst(cut)).map(EventVector.Event.init)
                #expect(found + rest == vector.events, "\(vector) cut at \(cut)")
            }
        }
    }

    @Test(.enabled(if: ReferenceEventParser.isThere, "needs python3"))
    func `10,000 generated streams yield the same events as a reference parser`() throws {
        var random = SplitMix64.printingSeed()
        let streams = (0..<10_000).map { _ in GeneratedEventStream.make(&random) }
        let expected = try ReferenceEventParser.parse(streams)
        try #require(expected.count == streams.count)
        var count = 0
        for (stream, outcome) in zip(streams, expected) {
            var (whole, split) = (EventStreamParser(), EventStreamParser())
            let found = try whole.parse(stream)
            let pieces = GeneratedEventStream.split(stream, &random)
            let isSame = try events(pieces, &split) == found && split.lastEventID == whole.lastEventID
            let retry = outcome.retry.flatMap(Double.init).map { min($0, 1e18) / 1000 }
            guard isSame, found.map({ [$0.type, $0.data, $0.lastEventID] }) == outcome.events,
                whole.lastEventID == outcome.lastEventID, whole.retryInterval == retry
            else {
                Issue.record("\(stream.base64EncodedString()): \(found), expected \(outcome)")
                return
            }
            count += found.count
        }
        #expect(count > 5_000)
    }

    @Test func `an ID without an event applies to the next connection`() throws {
        var parser = EventStreamParser(lastEventID: "before")
        #expect(try parser.parse(Data("data: a\n\nid: 7\n".utf8)).first?.lastEventID == "before")
        #expect(parser.lastEventID == "before")
        _ = try parser.parse(Data("\n".utf8))
        #expect(parser.lastEventID == "7")
    }

    @Test func `a reconnection time consists of any number of digits`() throws {
        for (text, expected) in [
            ("99999999999999999999", 1e18 / 1000), ("-1", nil), ("1x", nil), ("", nil), ("+1", nil), ("1.5", nil), ("0", 0),
            ("１", nil), ("250", 0.25),
        ] as [(String, Double?)] {
            var parser = EventStreamParser()
            _ = try parser.parse(Data("retry: \(text)\n\n".utf8))
            #expect(parser.retryInterval == expected, "\(text)")
        }
    }

    @Test func `an endless line is rejected at the limit for any division of the bytes`() throws {
        for size in [1, 7, 100] {
            var parser = EventStreamParser(maximumLineLength: 100)
            #expect(try parser.parse(Data("data: x\n\n".utf8)).count == 1)
            var taken = 0
            let error = #expect(throws: EventSourceError.self) {
                while taken < 10_000 {
                    _ = try parser.parse(Data(repeating: 0x61, count: size))
                    taken += size
                }
            }
            #expect(error == .lineTooLong(limit: 100))
            #expect(taken <= 100)
            #expect(throws: EventSourceError.lineTooLong(limit: 100)) { try parser.parse(Data("\n\n".utf8)) }
        }
        var parser = EventStreamParser(maximumLineLength: 9)
        #expect(try parser.parse(Data("\u{FEFF}data:1234\n\n".utf8)) == [ServerSentEvent(data: "1234")])
        #expect(throws: EventSourceError.self) { try parser.parse(Data("data:12345\n".utf8)) }
    }

    @Test func `a line may be as long as an event, and no limit is too large`() throws {
        let data = String(repeating: "x", count: 99)
        for head in ["data:", "data: ", "\u{FEFF}data: ", "event: a\nid: 1\ndata: "] {
            var parser = EventStreamParser(maximumEventLength: 100)
            #expect(try parser.parse(Data("\(head)\(data)\n\n".utf8)).map(\.data) == [data], "\(head)")
        }
        var parser = EventStreamParser(maximumEventLength: 100)
        let error = #expect(throws: EventSourceError.self) { try parser.parse(Data("other: \(data)\(data)".utf8)) }
        #expect(error == .eventTooLong(limit: 100))
        for limit in [nil, Int.max] {
            var endless = EventStreamParser(maximumLineLength: limit, maximumEventLength: .max)
            #expect(try endless.parse(Data("dat".utf8)).isEmpty)
            #expect(try endless.parse(Data("a: x\n\n".utf8)).map(\.data) == ["x"])
        }
    }

    @Test func `an endless event is rejected at the limit, and earlier events are kept`() throws {
        var parser = EventStreamParser(maximumEventLength: 50)
        var found: [ServerSentEvent] = []
        let text = "data: first\n\n" + String(repeating: "data: 0123456789\n", count: 5)
        let error = #expect(throws: EventSourceError.self) {
            try Data(text.utf8).withUnsafeBytes { try parser.parse($0, into: &found) }
        }
        #expect(error == .eventTooLong(limit: 50))
        #expect(found == [ServerSentEvent(data: "first")])
    }

    @Test func `endless comments and unknown fields take no memory`() throws {
        var parser = EventStreamParser(maximumLineLength: 64, maximumEventLength: 64)
        for _ in 0..<20_000 { #expect(try parser.parse(Data(": still here\nother: x\n".utf8)).isEmpty) }
        #expect(try parser.parse(Data("data: x\n\n".utf8)) == [ServerSentEvent(data: "x")])
    }

    @Test func `a copy of a parser continues independently`() throws {
        var parser = EventStreamParser()
        _ = try parser.parse(Data("data: a\nda".utf8))
        var copy = parser
        #expect(try parser.parse(Data("ta: b\n\n".utf8)) == [ServerSentEvent(data: "a\nb")])
        #expect(try copy.parse(Data("ta: c\n\n".utf8)) == [ServerSentEvent(data: "a\nc")])
    }
}
