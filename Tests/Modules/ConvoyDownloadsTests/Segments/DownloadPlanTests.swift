import ConvoyDownloads
import ConvoyOperations
import ConvoyTransport
import Foundation
import Testing

/// The handling of single responses by a plan.
@Suite struct DownloadPlanTests {
    private let url: URL

    init() throws { url = try #require(URL(string: "http://host/file")) }

    private func whole(_ tag: String, length: Int64?) -> ResponseHead {
        let fields = [("ETag", tag), ("Accept-Ranges", "bytes")] + (length.map { [("Content-Length", "\($0)")] } ?? [])
        return ResponseHead(url: url, statusCode: 200, headers: fields)
    }

    private func continued(parts: Int) -> DownloadPlan {
        var plan = DownloadPlan(sources: [url], maximumParts: parts, minimumPart: 1)
        let old = Representation(url: url, validators: .init(entityTag: "\"1\"", lastModified: nil), total: 100)
        plan.resume(old, ByteRanges([0..<50]))
        return plan
    }

    /// Returns the first request of a plan, whose response is the complete file.
    @discardableResult
    private func begin(_ plan: inout DownloadPlan, length: Int64 = 100) throws -> PartRequest {
        let begun = plan.begin()
        let first = try #require(begun)
        #expect(plan.evaluate(whole("\"1\"", length: length), for: first.id) == .startsOver)
        return first
    }

    /// Returns the request of a further concurrent part.
    private func another(_ plan: inout DownloadPlan) throws -> PartRequest {
        let more = plan.more(at: 1)
        return try #require(more).request
    }

    /// Delivers bytes of a part, and writes them.
    @discardableResult
    private func bring(_ count: Int64, _ id: Int, _ plan: inout DownloadPlan, at now: UInt64) -> DownloadPlan.Flow? {
        guard case .write = plan.claim(count, for: id) else { return nil }
        defer { plan.endClaim(of: id) }
        return plan.didWrite(for: id, at: now)
    }

    /// The complete file begins to replace the existing bytes, and another part fails before its first byte.
    @Test func `replaced bytes are not restored while another part replaces them`() throws {
        var plan = continued(parts: 2)
        let begun = plan.begin()
        let first = try #require(begun)
        #expect(plan.evaluate(whole("\"2\"", length: 100), for: first.id) == .startsOver)
        let second = try another(&plan)
        #expect(plan.didEnd(second.id, .failed, at: 1) == .more)
        #expect(plan.done.isEmpty)
        bring(10, first.id, &plan, at: 1)
        #expect(plan.done == ByteRanges([0..<10]))
        #expect(plan.representation?.validators.entityTag == "\"2\"")
    }

    /// Returns the verdict on the first response of an attempt, with 50 of 100 bytes stored.
    private func verdict(_ status: Int, _ fields: [(String, String)]) throws -> DownloadPlan.Verdict {
        var plan = continued(parts: 1)
        let begun = plan.begin()
        let first = try #require(begun)
        return plan.evaluate(ResponseHead(url: url, statusCode: status, headers: fields), for: first.id)
    }

    @Test func `a response that is neither the range nor the complete file is rejected`() throws {
        let tag = ("ETag", "\"1\"")
        for status in [200, 203, 226] {
            #expect(try verdict(status, [tag, ("Content-Range", "bytes 50-99/100"), ("Content-Length", "50")]) == .changed)
            #expect(try verdict(status, [("Content-Length", "50")]) == .changed)
            #expect(try verdict(status, [tag, ("Content-Length", "0")]) == .changed)
            #expect(try verdict(status, [tag, ("Content-Length", "101")]) == .changed)
            #expect(try verdict(status, [tag, ("Content-Length", "100")]) == .startsOver)
            #expect(try verdict(status, [("ETag", "\"2\""), ("Content-Length", "70")]) == .startsOver)
        }
        for status in [201, 202, 204, 205, 207] { #expect(try verdict(status, [tag]) == .changed, "\(status)") }
        let part = [tag, ("Content-Range", "bytes 50-99/100"), ("Content-Length", "50")]
        #expect(try verdict(206, part + [("Content-Type", "multipart/byteranges; boundary=x")]) == .changed)
        #expect(try verdict(206, part) == .goesOn)
    }

    @Test func `a source whose complete response contradicts its tag twice fails`() throws {
        var plan = continued(parts: 1)
        let begun = plan.begin()
        let first = try #require(begun)
        #expect(plan.evaluate(whole("\"1\"", length: 70), for: first.id) == .changed)
        guard case .ask(let second) = plan.didEnd(first.id, .failed, at: 1) else {
            return #expect(Bool(false), "no source is used")
        }
        #expect(second.range == nil)
        #expect(plan.evaluate(whole("\"1\"", length: 70), for: second.id) == .disagrees)
        #expect(plan.isDenied)
        #expect(plan.didEnd(second.id, .disagrees, at: 2) == .failed)
    }

    @Test func `a file that keeps changing is requested again at most three times`() throws {
        var plan = continued(parts: 1)
        let begun = plan.begin()
        var id = try #require(begun).id
        for attempt in 1...3 {
            guard case .ask(let next) = plan.didEnd(id, .changed, at: 1) else {
                return #expect(Bool(false), "no source is used after \(attempt)")
            }
            #expect(next.range == nil)
            id = next.id
        }
        #expect(plan.didEnd(id, .changed, at: 1) == .failed)
    }

    @Test func `a complete response without a length that ends early is not resumed`() throws {
        var plan = continued(parts: 1)
        let begun = plan.begin()
        let first = try #require(begun)
        #expect(plan.evaluate(whole("\"1\"", length: nil), for: first.id) == .startsOver)
        bring(50, first.id, &plan, at: 1)
        // The response has fewer bytes than an earlier one with the same tag.
        _ = plan.didEnd(first.id, .complete, at: 2)
        #expect(!plan.isComplete)
        let next = plan.begin()
        #expect(try #require(next).range == nil)
    }

    /// A part that was stopped for others, which ended before it, is requested again.
    @Test func `a part stopped in favour of others is requested again if they end first`() throws {
        var plan = DownloadPlan(sources: [url], maximumParts: 2, minimumPart: 1)
        let first = try begin(&plan)
        let second = try another(&plan)
        #expect(plan.evaluate(whole("\"2\"", length: 70), for: second.id) == .useless)
        #expect(bring(40, first.id, &plan, at: 1) == .goesOn)
        #expect(plan.didEnd(first.id, .failed, at: 2) == .more)
        guard case .ask(let third) = plan.didEnd(second.id, .useless, at: 3) else {
            return #expect(Bool(false), "no source is used")
        }
        #expect(third.range?.first == 40)
        #expect(plan.evaluate(whole("\"2\"", length: 70), for: third.id) == .startsOver)
    }

    /// The honest source must not be dropped together with the other one.
    @Test func `each source is tried alone after a wrong piece from several sources`() throws {
        let mirror = try #require(URL(string: "http://mirror/file"))
        let other = try #require(URL(string: "http://other/file"))
        var plan = DownloadPlan(sources: [url, mirror, other], maximumParts: 4, minimumPart: 1, isVerified: true)
        let old = Representation(url: url, validators: .init(entityTag: "\"1\"", lastModified: nil), total: 100)
        plan.resume(old, ByteRanges([0..<100]))
        #expect(plan.takeBack(40..<60).isEmpty)
        // The last byte of a complete file is requested again.
        #expect(plan.done == ByteRanges([0..<40, 60..<99]))
        #expect(plan.sources.allSatisfy { $0.isUsable })
        guard case .ask(let request) = plan.goOn() else { return #expect(Bool(false), "no source is used") }
        #expect(request.url == url && request.range?.first == 40)
        let answer = ResponseHead(
            url: url, statusCode: 206,
            headers: [("ETag", "\"1\""), ("Content-Range", "bytes 40-59/100"), ("Content-Length", "20")])
        #expect(plan.evaluate(answer, for: request.id) == .goesOn)
        let more = plan.more(at: 1)
        #expect(more == nil)
        // The piece is wrong again, and no other source has sent any of its bytes.
        #expect(bring(20, request.id, &plan, at: 1) == .ends)
        #expect(plan.takeBack(40..<60) == [request.id])
        guard case .ask(let next) = plan.didEnd(request.id, .disagrees, at: 2) else {
            return #expect(Bool(false), "no source is used")
        }
        #expect(next.url == mirror)
    }

    /// Unlike with a server that does not support ranges, the other parts cannot continue.
    @Test func `a part with a different total length indicates that the file has changed`() throws {
        var plan = DownloadPlan(sources: [url], maximumParts: 2, minimumPart: 1)
        try begin(&plan)
        let second = try another(&plan)
        let range = try #require(second.range)
        let fields = [("ETag", "\"2\""), ("Content-Range", "bytes \(range.first)-99/200")]
        #expect(plan.evaluate(ResponseHead(url: url, statusCode: 206, headers: fields), for: second.id) == .changed)
    }

    @Test func `a mirror without the requested range is dropped, and the first source continues`() throws {
        let mirror = try #require(URL(string: "http://mirror/file"))
        var plan = DownloadPlan(sources: [url, mirror], maximumParts: 2, minimumPart: 1, isVerified: true)
        try begin(&plan)
        let second = try another(&plan)
        #expect(second.url == mirror)
        #expect(plan.evaluate(ResponseHead(url: mirror, statusCode: 416, headers: []), for: second.id) == .disagrees)
        #expect(plan.didEnd(second.id, .disagrees, at: 1) == .more)
        #expect(plan.more(at: 1).map(\.request.url) != mirror)
    }

    @Test func `stored bytes are restored if nothing has replaced them`() throws {
        var plan = continued(parts: 2)
        let begun = plan.begin()
        let first = try #require(begun)
        #expect(plan.evaluate(whole("\"2\"", length: 100), for: first.id) == .startsOver)
        let second = try another(&plan)
        #expect(plan.didEnd(second.id, .failed, at: 1) == .more)
        #expect(plan.didEnd(first.id, .failed, at: 1) == .failed)
        #expect(plan.done == ByteRanges([0..<50]))
        #expect(plan.representation?.validators.entityTag == "\"1\"")
    }

    @Test func `a part that receives nothing for five seconds loses its remaining range`() throws {
        // A remainder shorter than two minimum parts is not divided.
        var plan = DownloadPlan(sources: [url], maximumParts: 2, minimumPart: 80)
        let first = try begin(&plan)
        let second: UInt64 = 1_000_000_000
        #expect(bring(10, first.id, &plan, at: second) == .goesOn)
        #expect(plan.more(at: 6 * second) == nil)
        let more = plan.more(at: 6 * second + 1)
        let (request, stops) = try #require(more)
        #expect(stops == first.id)
        #expect(request.range?.first == 10 && request.range?.last == nil)
    }

    @Test func `bytes from different sources are not combined without a checksum`() throws {
        let mirror = try #require(URL(string: "http://mirror/file"))
        var plan = DownloadPlan(sources: [url, mirror], maximumParts: 2, minimumPart: 1, isVerified: true)
        try begin(&plan)
        let second = try another(&plan)
        #expect(second.url == mirror)
        // The checksum was that of a different version.
        plan.isVerified = false
        let range = try #require(second.range)
        let answer = ResponseHead(
            url: mirror, statusCode: 206, headers: [("ETag", "\"1\""), ("Content-Range", "bytes \(range.first)-99/100")])
        #expect(plan.evaluate(answer, for: second.id) == .changed)
    }

    @Test func `bytes that a part is writing are not taken over`() throws {
        var plan = DownloadPlan(sources: [url], maximumParts: 3, minimumPart: 160)
        let first = try begin(&plan, length: 1000)
        #expect(plan.claim(620, for: first.id) == .write(0..<620))
        let more = plan.more(at: 1)
        #expect(more?.request.range?.first == 810)
        #expect(plan.parts[first.id]?.end == 810)
        // The remainder is shorter than two minimum parts.
        let other = plan.more(at: 1)
        #expect(other == nil)
        #expect(plan.didWrite(for: first.id, at: 2) == .goesOn)
        #expect(plan.done == ByteRanges([0..<620]))
    }

    @Test func `work is divided into whole blocks`() throws {
        var plan = DownloadPlan(sources: [url], maximumParts: 3, minimumPart: 160)
        let first = try begin(&plan, length: 1000)
        let ranges = [plan.more(at: 1), plan.more(at: 1)].compactMap { $0?.request.range }
        #expect(ranges.map(\.first) == [340, 680] && ranges.map(\.last) == [679, nil])
        #expect(plan.parts[first.id]?.end == 340)
        let more = plan.more(at: 1)
        #expect(more == nil)
    }

    @Test func `a part takes back its range if the part that took it over fails`() throws {
        var plan = DownloadPlan(sources: [url], maximumParts: 2, minimumPart: 10)
        let first = try begin(&plan)
        let second = try another(&plan)
        #expect(plan.parts[first.id]?.end == 50)
        #expect(plan.didEnd(second.id, .failed, at: 1) == .more)
        let none = plan.more(at: 1)
        #expect(none == nil)
        #expect(bring(100, first.id, &plan, at: 2) == .ends)
    }

    /// A server may refuse the other request, and has sent these bytes in the meantime.
    @Test func `a part takes back a range for which no response has arrived`() throws {
        var plan = DownloadPlan(sources: [url], maximumParts: 2, minimumPart: 10)
        let first = try begin(&plan)
        let second = try another(&plan)
        #expect(bring(49, first.id, &plan, at: 2) == .goesOn)
        #expect(plan.parts[first.id]?.end == 50)
        #expect(bring(11, first.id, &plan, at: 2) == .goesOn)
        #expect(plan.parts[first.id]?.end == 100)
        let answer = ResponseHead(
            url: url, statusCode: 206,
            headers: [("ETag", "\"1\""), ("Content-Range", "bytes 50-99/100"), ("Content-Length", "50")])
        #expect(plan.evaluate(answer, for: second.id) == .useless)
        #expect(plan.didEnd(second.id, .useless, at: 3) == .more)
        // The source has not failed.
        #expect(plan.sources[0].isUsable && plan.sources[0].failures == 0)
        #expect(bring(40, first.id, &plan, at: 4) == .ends)
    }

    @Test func `a source that refuses another connection is still used`() throws {
        var plan = DownloadPlan(sources: [url], maximumParts: 2, minimumPart: 10)
        let first = try begin(&plan)
        let second = try another(&plan)
        #expect(bring(40, first.id, &plan, at: 2) == .goesOn)
        #expect(plan.didEnd(first.id, .failed, at: 3) == .more)
        guard case .ask(let third) = plan.didEnd(second.id, .refused, at: 4) else {
            return #expect(Bool(false), "no source is used")
        }
        #expect(third.range?.first == 40)
    }

    /// The part is being stopped and is complete, although it has not ended yet.
    @Test func `a part that is being stopped takes back no range`() throws {
        let mirror = try #require(URL(string: "http://mirror/file"))
        var plan = DownloadPlan(sources: [url, mirror], maximumParts: 2, minimumPart: 10, isVerified: true)
        let first = try begin(&plan)
        let second = try another(&plan)
        #expect(second.url == mirror)
        let answer = ResponseHead(
            url: mirror, statusCode: 206, headers: [("ETag", "\"1\""), ("Content-Range", "bytes 50-99/100")])
        #expect(plan.evaluate(answer, for: second.id) == .goesOn)
        #expect(bring(50, first.id, &plan, at: 2) == .stop)
        #expect(plan.didEnd(second.id, .failed, at: 3) == .more)
        let next = plan.didEnd(first.id, .complete, at: 4)
        guard case .ask(let rest) = next else { return #expect(Bool(false), "no source is used: \(next)") }
        #expect(rest.url == url && rest.range?.first == 50)
    }

    @Test(arguments: [nil, "none", "bytes"]) func `ranges are requested only from a server that announces support for them`(
        units: String?
    ) throws {
        var plan = DownloadPlan(sources: [url], maximumParts: 2, minimumPart: 10)
        let begun = plan.begin()
        let first = try #require(begun)
        let fields = [("ETag", "\"1\""), ("Content-Length", "100")] + (units.map { [("Accept-Ranges", $0)] } ?? [])
        let answer = ResponseHead(url: url, statusCode: 200, headers: fields)
        #expect(plan.evaluate(answer, for: first.id) == .startsOver)
        let more = plan.more(at: 1)
        #expect((more != nil) == (units == "bytes"))
    }

    /// With a checksum, a source may have a different file under the same tag, which the checksum detects.
    @Test(arguments: [false, true])
    func `a response without a length has the length known for its tag, unless a checksum is set`(isVerified: Bool) throws {
        var plan = continued(parts: 1)
        plan.isVerified = isVerified
        let begun = plan.begin()
        let first = try #require(begun)
        #expect(plan.evaluate(whole("\"1\"", length: nil), for: first.id) == .startsOver)
        #expect(plan.total == (isVerified ? nil : 100))
    }

    @Test func `parts without a tag are accepted if a checksum is set`() throws {
        var plan = DownloadPlan(sources: [url], maximumParts: 2, minimumPart: 10, isVerified: true)
        let begun = plan.begin()
        let first = try #require(begun)
        let answer = ResponseHead(
            url: url, statusCode: 200, headers: [("Accept-Ranges", "bytes"), ("Content-Length", "100")])
        #expect(plan.evaluate(answer, for: first.id) == .startsOver)
        let second = try another(&plan)
        let range = try #require(second.range)
        let part = ResponseHead(url: url, statusCode: 206, headers: [("Content-Range", "bytes \(range.first)-99/100")])
        #expect(plan.evaluate(part, for: second.id) == .goesOn)
    }

    @Test(arguments: [1, 50]) func `a part that ends before its announced length fails`(missing: Int64) throws {
        var plan = DownloadPlan(sources: [url])
        let first = try begin(&plan)
        #expect(bring(100 - missing, first.id, &plan, at: 1) == .goesOn)
        #expect(plan.didEnd(first.id, .complete, at: 2) == .failed)
    }

    @Test func `a part accepts no more bytes than its response announced`() throws {
        var plan = DownloadPlan(sources: [url])
        let first = try begin(&plan)
        #expect(plan.claim(101, for: first.id) == .exceeds)
        #expect(plan.claim(1, for: first.id) == .drop)
    }
}
