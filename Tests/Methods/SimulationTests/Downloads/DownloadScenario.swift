import ConvoyTestSupport
import Foundation
import FoundationNetworking

/// A download, its server's response to each connection, and concurrent user calls.
struct DownloadScenario: Scenario {
    /// The server's response to a connection. After the last specified one, it sends the requested bytes.
    enum Reply: String, Codable, CaseIterable, Sendable {
        case whole
        case lost
        case refused
        /// Another file has replaced the first one.
        case changed
        /// The server sends the complete file in response to any range.
        case ignoresRanges
        case failure
        /// The server never responds.
        case silent
    }

    enum Call: String, Codable, CaseIterable, Sendable {
        case add, start, pause, resume, cancel, suspend, unsuspend
    }

    var replies: [Reply]
    var users: [[Call]]
    /// The number of connections.
    var segments = 1
    /// Whether the download may replace an existing file.
    var replaces = false
    /// Whether the file is validated against a checksum.
    var hasChecksum = false
    /// Whether the pieces of the file are validated against wrong digests.
    var hasWrongPieces = false
    /// Whether the action of each change is a separate step, which may be delayed.
    var isLate = false

    /// Returns the file, in the first or the second version.
    static func contents(_ version: Int) -> Data {
        Data((0..<(64 + version)).map { UInt8(ascii: "a") + UInt8(($0 * 7 + version) % 26) })
    }

    var simpler: [DownloadScenario] {
        var found: [DownloadScenario] = []
        func add(_ change: (inout DownloadScenario) -> Void) {
            var copy = self
            change(&copy)
            found.append(copy)
        }
        for user in users.indices.reversed() where users.count > 1 { add { $0.users.remove(at: user) } }
        for user in users.indices {
            for call in users[user].indices.reversed() { add { $0.users[user].remove(at: call) } }
        }
        for reply in replies.indices.reversed() { add { $0.replies.remove(at: reply) } }
        if segments > 1 { add { $0.segments -= 1 } }
        if replaces { add { $0.replaces = false } }
        if hasChecksum { add { $0.hasChecksum = false } }
        if hasWrongPieces { add { $0.hasWrongPieces = false } }
        if isLate { add { $0.isLate = false } }
        return found
    }

    func play(tells: Bool, _ pick: (Int) -> Int) -> Play { DownloadWorld(self, tells: tells).play(pick) }

    /// Returns a random scenario.
    static func drawn(_ random: inout SplitMix64) -> DownloadScenario {
        func drawn<Value>(_ values: [Value]) -> Value { values[Int.random(in: 0..<values.count, using: &random)] }
        var scenario = DownloadScenario(replies: [], users: [])
        for _ in 0..<Int.random(in: 0...3, using: &random) {
            scenario.replies.append(drawn([.whole, .lost] + Reply.allCases))
        }
        scenario.segments = drawn([1, 1, 2, 3])
        scenario.replaces = drawn([true, false])
        scenario.hasChecksum = drawn([true, false, false])
        scenario.hasWrongPieces = drawn([true, false, false, false, false])
        scenario.isLate = drawn([true, false])
        for user in 0..<Int.random(in: 1...2, using: &random) {
            var calls: [Call] = user == 0 ? [drawn([.add, .start])] : []
            let some: [Call] = [.pause, .resume, .pause, .resume]
            for _ in 0..<Int.random(in: 0...5, using: &random) { calls.append(drawn(some + Call.allCases)) }
            scenario.users.append(calls)
        }
        return scenario
    }

    /// Returns the scenarios for all sequences of a number of user calls.
    static func all(calls: Int) -> [DownloadScenario] {
        var programs: [[Call]] = [[.start]]
        for _ in 0..<calls {
            programs = programs.flatMap { program in [.pause, .resume, .cancel].map { program + [$0] } }
        }
        let replies: [[Reply]] = [[], [.lost], [.lost, .changed], [.ignoresRanges]]
        return [false, true].flatMap { isLate in
            replies.flatMap { replies in
                programs.map {
                    DownloadScenario(
                        replies: replies, users: [$0], segments: isLate ? 2 : 1, replaces: isLate,
                        hasChecksum: replies == [.lost],
                        isLate: isLate)
                }
            }
        }
    }
}

extension DownloadScenario.Reply {
    func events(for request: URLRequest, version: Int) -> [SimulatedConnection.Event] {
        switch self {
        case .refused: return [.fail(.cannotConnectToHost, [:])]
        case .failure: return [.head(404, [("Content-Length", "0")]), .finish]
        case .silent: return []
        case .whole, .changed, .lost, .ignoresRanges: break
        }
        var body = DownloadScenario.contents(version)
        let tag = "\"v\(version)\""
        var headers = [("ETag", tag), ("Accept-Ranges", "bytes")]
        var status = 200
        let condition = request.value(forHTTPHeaderField: "If-Range")
        if self != .ignoresRanges, condition == nil || condition == tag,
            let bounds = request.value(forHTTPHeaderField: "Range")?.dropFirst("bytes=".count).split(
                separator: "-", omittingEmptySubsequences: false),
            let first = bounds.first.flatMap({ Int($0) }), first < body.count
        {
            let last = min(bounds.last.flatMap { Int($0) } ?? body.count - 1, body.count - 1)
            status = 206
            headers.append(("Content-Range", "bytes \(first)-\(last)/\(body.count)"))
            body = Data(body[first...last])
        }
        headers.append(("Content-Length", "\(body.count)"))
        let half = body.count / 2
        let start: [SimulatedConnection.Event] = [.head(status, headers), .data(Data(body.prefix(half)))]
        return start + (self == .lost ? [.fail(.networkConnectionLost, [:])] : [.data(Data(body.dropFirst(half))), .finish])
    }
}
