import ConvoySupport
import Foundation

/// A server that contradicts itself, or an honest one that resembles such a server.
struct ScriptedServer: Sendable, CustomStringConvertible {
    typealias Answer = @Sendable (ScriptedExchange) -> ScriptedAnswer

    let name: String
    var isHonest = false
    /// Whether the first response may be cut, so that a download can resume even without a pause.
    var mayBeCut = true
    var isOverHTTP1 = true
    var isOverHTTP2 = true
    /// The versions of the file that a client may end with.
    var versions: Set<Int> = [0]
    /// Whether no client can detect that bytes are missing.
    var isUndetectable = false
    let answer: Answer

    init(_ name: String, _ answer: @escaping Answer) { (self.name, self.answer) = (name, answer) }

    var description: String { name }

    private func with(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }

    private var overHTTP1: Self { with { $0.isOverHTTP2 = false } }
    private var overHTTP2: Self { with { $0.isOverHTTP1 = false } }
    private var undetectable: Self { with { $0.isUndetectable = true } }
    private var uncut: Self { with { $0.mayBeCut = false } }
    private func versions(_ versions: Int...) -> Self { with { $0.versions = Set(versions) } }

    /// Returns a server that uses `answer` for range requests, and is honest about the complete resource.
    private static func ranges(_ name: String, _ answer: @escaping Answer) -> Self {
        Self(name) { $0.asked == nil ? $0.whole() : answer($0) }
    }

    /// Returns a server that answers the first request honestly, and uses `answer` for all others.
    private static func always(_ name: String, _ answer: @escaping Answer) -> Self {
        Self(name) { $0.number == 0 ? $0.whole() : answer($0) }
    }

    /// Returns a server that sends the complete resource without a length, and uses `answer` for range requests.
    private static func lengthless(_ name: String, _ answer: @escaping Answer) -> Self {
        Self(name) { $0.asked == nil ? $0.whole().lengthless : answer($0) }
    }

    private static func honest(_ name: String, _ answer: @escaping Answer) -> Self {
        Self(name, answer).with { $0.isHonest = true }
    }

    // MARK: Contradictions

    /// Servers that send partial responses with a different status.
    private static let disguises: [Self] = [
        ranges("200 with the rest and its Content-Range") { $0.answer(200, $0.rest).adding("Content-Range", $0.range) },
        ranges("203 with the rest and its Content-Range") { $0.answer(203, $0.rest).adding("Content-Range", $0.range) },
        ranges("226 with the rest and its Content-Range") { $0.answer(226, $0.rest).adding("Content-Range", $0.range) },
        ranges("200 with the rest, its Content-Range, and no validator") {
            $0.answer(200, $0.rest).adding("Content-Range", $0.range).without("ETag")
        },
        ranges("200 with the rest, its Content-Range, and no length") {
            $0.answer(200, $0.rest).adding("Content-Range", $0.range).lengthless
        },
        ranges("200 with the rest, and a Content-Range without a total") {
            $0.answer(200, $0.rest).adding("Content-Range", "bytes \($0.offset)-\($0.last)/*").lengthless
        },
        ranges("200 with the rest, and a Content-Range without a unit") {
            $0.answer(200, $0.rest).adding("Content-Range", "\($0.offset)-\($0.last)/\($0.size)")
        },
        ranges("200 with the rest, and two Content-Ranges") {
            $0.answer(200, $0.rest).adding("Content-Range", $0.range).adding(
                "Content-Range", "bytes 0-\($0.last)/\($0.size)")
        },
        ranges("200 with the rest, the tag and no Content-Range") { $0.answer(200, $0.rest) },
        ranges("203 with the rest, the tag and no Content-Range") { $0.answer(203, $0.rest) },
        ranges("200 with the rest, and no validator") { $0.answer(200, $0.rest).without("ETag") },
        ranges("200 with the rest, and another tag") { $0.answer(200, $0.rest, of: 5) },
        ranges("200 with the rest, the tag and no length") { $0.answer(200, $0.rest).lengthless },
        ranges("200 with the rest, until the connection ends") {
            $0.answer(200, $0.rest).with { ($0.length, $0.isEndedByConnection) = (nil, true) }
        }.overHTTP1,
        always("200 with the rest and its Content-Range to any request") {
            $0.answer(200, $0.entity()[($0.size / 2)...]).adding(
                "Content-Range", "bytes \($0.size / 2)-\($0.size - 1)/\($0.size)")
        },
        always("200 with half of it, the tag and no Content-Range to any request") {
            $0.answer(200, $0.entity()[($0.size / 2)...])
        },
        always("200 with half of it, the tag and no length to any request") {
            $0.answer(200, $0.entity()[($0.size / 2)...]).lengthless
        },
        Self("alternately a 200 with the rest and without a length, and a part") { exchange in
            guard exchange.asked != nil else { return exchange.whole() }
            return exchange.number == 1 ? exchange.answer(200, exchange.rest).lengthless : exchange.part()
        },
    ]

    /// Servers that send the same strong tag with a different length.
    private static let lengths: [Self] = [
        ranges("200 with the first half, and the tag") { $0.answer(200, $0.entity().prefix($0.size / 2)) },
        ranges("200 with more bytes, and the tag") { $0.answer(200, $0.entity() + Data("more".utf8)) },
        ranges("200 with more bytes, the tag and no length") { $0.answer(200, $0.entity() + Data("more".utf8)).lengthless },
        ranges("200 with nothing, and the tag") { $0.answer(200, Data()) },
        ranges("200 with nothing, the tag and no length") { $0.answer(200, Data()).lengthless },
        ranges("203 with nothing, and the tag") { $0.answer(203, Data()) },
        always("200 with nothing, and the tag to any request") { $0.answer(200, Data()) },
        always("200 with more bytes, and the tag to any request") {
            $0.answer(200, $0.entity() + Data("more".utf8))
        },
        lengthless("no length first, then 200 with nothing, and the tag") { $0.answer(200, Data()) },
        lengthless("no length first, then 200 with nothing, the tag and no length") { $0.answer(200, Data()).lengthless },
        ranges("206 with a total of one byte more") { $0.part("bytes \($0.offset)-\($0.last)/\($0.size + 1)") },
        ranges("206 with a total smaller than the bytes sent") { $0.part("bytes \($0.offset)-\($0.last)/\($0.last)") },
        Self("206 and 200 with a total of one byte more, and the tag") { exchange in
            if exchange.number == 0 { return exchange.whole() }
            guard exchange.asked != nil else { return exchange.answer(200, exchange.entity() + Data("+".utf8)) }
            return exchange.part("bytes \(exchange.offset)-\(exchange.last)/\(exchange.size + 1)")
        },
        ranges("416 that ends where the client is") { $0.unsatisfiable($0.offset) },
        ranges("416 without a length") {
            _ = $0; return $0.unsatisfiable(nil)
        },
        lengthless("no length first, then 416 that ends where the client is") { $0.unsatisfiable($0.offset) },
    ]

    /// Servers that send ranges that do not match the request.
    private static let parts: [Self] = [
        ranges("206 of several parts with a Content-Range that fits") {
            Self.several($0, "multipart/byteranges; boundary=b")
        },
        ranges("206 of several parts, in another spelling") { Self.several($0, "MULTIPART/ByteRanges;boundary=\"b\"") },
        ranges("206 of several parts with a Content-Range that fits, and no length") {
            Self.several($0, "multipart/byteranges; boundary=b").lengthless
        },
        ranges("206 of several parts without a Content-Range") {
            Self.several($0, "multipart/byteranges; boundary=b").without("Content-Range")
        },
        ranges("206 that begins a byte later") {
            $0.part("bytes \($0.offset + 1)-\($0.last + 1)/\($0.size + 1)")
        },
        ranges("206 from the first byte on") { $0.part("bytes 0-\($0.size - 1)/\($0.size)", $0.entity()) },
        ranges("206 without a total") { $0.part("bytes \($0.offset)-\($0.last)/*").lengthless },
        ranges("206 without a Content-Range") { $0.part().without("Content-Range") },
        ranges("206 with fewer bytes, and their length") { $0.part(nil, $0.rest.dropLast(7)) },
        ranges("206 with fewer bytes, and no length") { $0.part(nil, $0.rest.dropLast($0.rest.count / 3)).lengthless },
        ranges("206 with more bytes, and their length") { $0.part(nil, $0.rest + Data("more".utf8)) },
        ranges("206 with more bytes, and no length") { $0.part(nil, $0.rest + Data("more".utf8)).lengthless },
        ranges("206 of another version with its tag") { Self.other($0, $0.tag(1)) },
        ranges("206 of another version with a weak tag") { Self.other($0, "W/" + $0.tag()) },
        ranges("206 of another version without a tag") { Self.other($0, nil) },
        ranges("206 of another version with the tag, and its length") { exchange in
            Self.other(exchange, exchange.tag(), of: exchange.size + 321)
        },
        ranges("206 of bytes that are encoded") { $0.part().adding("Content-Encoding", "gzip") },
        Self("a range even in response to a request without one") { $0.number == 0 ? $0.whole() : $0.part() },
        Self("a range elsewhere, with the tag of another file") { exchange in
            if exchange.asked != nil, !exchange.isElsewhere { return Self.redirect(exchange) }
            return exchange.isElsewhere ? Self.other(exchange, exchange.tag()) : exchange.whole()
        },
    ]

    /// Servers that send statuses that do not represent the file.
    private static let statuses: [Self] =
        [201, 202, 205, 207, 208, 299].map { status in
            ranges("\(status) to a range") { $0.answer(status, Data("status \(status)".utf8)) }
        } + [
            ranges("204 to a range") { $0.answer(204, Data()) },
            ranges("304 to a range") { $0.answer(304, Data()) },
            ranges("412 to a range") { $0.answer(412, Data("no".utf8)) },
            ranges("202 without a length to a range") { $0.answer(202, Data("later".utf8)).without("ETag").lengthless },
        ]

    /// Servers with contradictions that only frames can express.
    private static let frames: [Self] = [
        Self("a stream that is reset without an error, and a length") { exchange in
            let answer = exchange.honest
            return answer.ending(.reset(after: answer.body.count / 2, code: 0))
        },
        ranges("a part that is reset without an error, and no length") { exchange in
            let part = exchange.part()
            return part.lengthless.ending(.reset(after: part.body.count / 2, code: 0))
        },
        ranges("a part without a total that is reset without an error") { exchange in
            exchange.part("bytes \(exchange.offset)-\(exchange.last)/*").lengthless
                .ending(.reset(after: exchange.rest.count / 2, code: 0))
        },
        ranges("the complete file with the tag and no length, reset without an error") {
            $0.whole().lengthless.ending(.reset(after: $0.size / 2, code: 0))
        },
        Self("no length ever, reset without an error") {
            $0.whole().lengthless.ending(.reset(after: $0.size / 2, code: 0))
        }.undetectable.uncut,
        Self("no length at first, reset without an error") { exchange in
            if exchange.number == 0 { return exchange.whole().lengthless.ending(.reset(after: exchange.size / 2, code: 0)) }
            return exchange.honest
        }.undetectable.uncut,
        ranges("END_STREAM before the announced length") { exchange in
            exchange.part().announcing(exchange.rest.count + 9)
        },
        ranges("more DATA than announced") { $0.part(nil, $0.rest + Data("more".utf8)).announcing($0.rest.count) },
        ranges("a head with END_STREAM, and a length") { $0.part(nil, Data()).announcing($0.rest.count) },
        ranges("GOAWAY without an error in the middle of a part") {
            $0.part().ending(.goAway(after: $0.rest.count / 2, code: 0))
        },
        ranges("GOAWAY in the middle of a part without a length") {
            $0.part().lengthless.ending(.goAway(after: $0.rest.count / 2, code: 0))
        },
        ranges("an internal error in the middle of a part without a length") {
            $0.part().lengthless.ending(.reset(after: $0.rest.count / 2, code: 2))
        },
        ranges("DATA after the end of a part") { $0.part().ending(.dataAfterEnd) },
    ].map(\.overHTTP2)

    static let contradictions = disguises + lengths + parts + statuses + frames

    // MARK: Honest servers

    static let honest: [Self] = [
        honest("ranges with a tag") { $0.honest },
        honest("ranges with a tag, and no length at first") {
            $0.asked == nil ? $0.whole().lengthless : $0.honest
        },
        honest("ranges with a tag, and never a length") { $0.honest.lengthless },
        honest("ranges with a date") { exchange in
            let isPart = exchange.asked != nil && exchange.condition == Self.date
            return (isPart ? exchange.part() : exchange.whole()).without("ETag").adding("Last-Modified", Self.date)
        },
        honest("no ranges") { $0.whole().without("Accept-Ranges") },
        honest("no ranges, and no length") { $0.whole().without("Accept-Ranges").lengthless },
        honest("no validator") { $0.whole().without("ETag") },
        honest("a weak tag") { $0.whole().without("ETag").adding("ETag", "W/" + $0.tag()) },
        honest("200 with all of it, and a matching Content-Range") { exchange in
            exchange.asked == nil
                ? exchange.whole()
                : exchange.whole().adding("Content-Range", "bytes 0-\(exchange.size - 1)/\(exchange.size)")
        },
        honest("203 with all of it") { $0.asked == nil ? $0.whole() : $0.answer(203, $0.entity()) },
        honest("ranges shorter than requested") { exchange in
            guard exchange.asked != nil, exchange.offset < exchange.size, exchange.condition == exchange.tag() else {
                return exchange.honest
            }
            let end = min(exchange.last, exchange.offset + max(1, exchange.size / 3))
            return exchange.part(
                "bytes \(exchange.offset)-\(end)/\(exchange.size)", exchange.entity()[exchange.offset...end])
        },
        honest("another file with another tag and length") { Self.changing($0, to: 1) }.versions(0, 1),
        honest("another file with another tag and no length") {
            $0.number == 0 ? $0.whole() : $0.whole(1).lengthless
        }.versions(0, 1),
        honest("an empty file with another tag") { Self.changing($0, to: 2) }.versions(0, 2),
        honest("an empty file with another tag and no length") {
            $0.number == 0 ? $0.whole() : $0.whole(2).lengthless
        }.versions(0, 2),
        honest("another length without a validator") { exchange in
            exchange.whole(exchange.number == 0 ? 0 : 1).without("ETag")
        }.versions(0, 1),
        honest("another date and another length") { exchange in
            let isNew = exchange.number > 0
            return exchange.whole(isNew ? 1 : 0).without("ETag").adding("Last-Modified", isNew ? Self.laterDate : Self.date)
        }.versions(0, 1),
        honest("a redirect each time") { $0.isElsewhere ? $0.honest : Self.redirect($0) },
        honest("a redirect whose body is cut") { exchange in
            if exchange.isElsewhere { return exchange.honest }
            return Self.redirect(exchange).with { $0.body = Data("moved".utf8) }.announcing(100).ending(.closed(after: 5))
        },
        honest("busy at first") {
            $0.number == 1 ? $0.answer(503, Data("busy".utf8)).adding("Retry-After", "0") : $0.honest
        },
        honest("nothing at first") { $0.number == 1 ? $0.honest.ending(.refused) : $0.honest },
        honest("closed before the head") { $0.number == 1 ? $0.honest.ending(.dropped) : $0.honest },
        honest("three answers that are cut") { exchange in
            let answer = exchange.honest
            guard exchange.number < 3 else { return answer }
            let count = Int(Double(answer.body.count) * exchange.chance)
            return answer.ending(exchange.number == 1 ? .reset(after: count, code: 2) : .closed(after: count))
        }.uncut,
        honest("interim answers and trailers that look like fields") { exchange in
            exchange.honest.lengthless.with {
                $0.hasInterim = true
                $0.trailers = [("X-Content-Range", "bytes 0-1/2"), ("X-ETag", "\"trailer\"")]
            }
        },
        honest("a body that ends with the connection") { exchange in
            exchange.honest.with { ($0.length, $0.isEndedByConnection) = (nil, true) }
        }.overHTTP1.uncut,
        honest("padding") { $0.honest.with { $0.padding = 200 } }.overHTTP2,
        honest("RST_STREAM without an error after the end") { $0.honest.ending(.resetAfterEnd) }.overHTTP2,
        honest("GOAWAY after each answer") { $0.honest.ending(.goAwayAfterEnd) }.overHTTP2,
        honest("a part that is reset without an error, once") { exchange in
            let answer = exchange.honest
            return exchange.number == 1 ? answer.ending(.reset(after: answer.body.count / 2, code: 0)) : answer
        }.overHTTP2,
    ]

    // MARK: Parts of responses

    private static let date = "Wed, 21 Oct 2015 07:28:00 GMT"
    private static let laterDate = "Wed, 21 Oct 2015 09:28:00 GMT"

    /// Returns an answer with the first version to the first request, and with the other version, including honest
    /// ranges of it, to later requests.
    private static func changing(_ exchange: ScriptedExchange, to version: Int) -> ScriptedAnswer {
        if exchange.number == 0 { return exchange.whole() }
        let entity = exchange.entity(version)
        guard let asked = exchange.asked, exchange.condition == exchange.tag(version), asked < entity.count else {
            return exchange.whole(version)
        }
        let last = min(exchange.askedLast ?? .max, entity.count - 1)
        return exchange.answer(206, entity[asked...last], of: version)
            .adding("Content-Range", "bytes \(asked)-\(last)/\(entity.count)")
    }

    private static func several(_ exchange: ScriptedExchange, _ type: String) -> ScriptedAnswer {
        let body = Data("--b\r\nContent-Range: \(exchange.range)\r\n\r\n".utf8) + exchange.rest + Data("\r\n--b--\r\n".utf8)
        // Send as many bytes as the range has, so that only the type differs.
        return exchange.part(nil, body.prefix(exchange.rest.count)).adding("Content-Type", type)
    }

    /// Returns an answer with bytes of another version for the range of the first one.
    private static func other(_ exchange: ScriptedExchange, _ tag: String?, of total: Int? = nil) -> ScriptedAnswer {
        let body = exchange.offset <= exchange.last ? exchange.entity(1)[exchange.offset...exchange.last] : Data()
        let answer = exchange.part("bytes \(exchange.offset)-\(exchange.last)/\(total ?? exchange.size)", body)
            .without("ETag")
        return tag.map { answer.adding("ETag", $0) } ?? answer
    }

    private static func redirect(_ exchange: ScriptedExchange) -> ScriptedAnswer {
        ScriptedAnswer(302, [("Location", "\(exchange.path)?elsewhere")], Data())
    }
}
