import ConvoyTestSupport
import Foundation
import FoundationNetworking

/// An event source, its server's response to each connection, and concurrent user calls.
struct EventScenario: Scenario {
    /// The server's response to a connection. After the last specified one, it ends the source (204).
    enum Reply: String, Codable, CaseIterable, Sendable {
        /// The server sends some events, then ends the response.
        case events
        /// The server sends some events, then the connection is lost.
        case lost
        /// The server sends no event, then ends the response.
        case nothing
        case refused
        /// The server sends a status code that ends the source.
        case failure
        /// The server sends a body of another type.
        case otherType
        /// The server sends one event, then nothing more.
        case silent
    }

    enum Call: String, Codable, CaseIterable, Sendable {
        case add, start, pause, resume, close, cancel, restart, listen, unlisten, forget
        /// Lets the handler of the next event pause the source.
        case pauseWithin
    }

    var replies: [Reply]
    var users: [[Call]]
    /// Whether the action of each change is a separate step, which may be delayed.
    var isLate = false
    /// Whether one request waits for the source to open, and another for the source to end.
    var hasDependents = false

    /// The total number of the server's events.
    static let count = 6

    var simpler: [EventScenario] {
        var found: [EventScenario] = []
        func add(_ change: (inout EventScenario) -> Void) {
            var copy = self
            change(&copy)
            found.append(copy)
        }
        for user in users.indices.reversed() where users.count > 1 { add { $0.users.remove(at: user) } }
        for user in users.indices {
            for call in users[user].indices.reversed() { add { $0.users[user].remove(at: call) } }
        }
        for reply in replies.indices.reversed() { add { $0.replies.remove(at: reply) } }
        if isLate { add { $0.isLate = false } }
        if hasDependents { add { $0.hasDependents = false } }
        return found
    }

    func play(tells: Bool, _ pick: (Int) -> Int) -> Play { EventWorld(self, tells: tells).play(pick) }

    /// Returns a random scenario.
    static func drawn(_ random: inout SplitMix64) -> EventScenario {
        func drawn<Value>(_ values: [Value]) -> Value { values[Int.random(in: 0..<values.count, using: &random)] }
        var scenario = EventScenario(replies: [], users: [])
        let often: [Reply] = [.events, .events, .lost]
        for _ in 0..<Int.random(in: 0...3, using: &random) { scenario.replies.append(drawn(often + Reply.allCases)) }
        scenario.isLate = Bool.random(using: &random)
        scenario.hasDependents = drawn([true, false, false])
        for user in 0..<Int.random(in: 1...2, using: &random) {
            var calls: [Call] = user == 0 ? [drawn([.add, .start])] : []
            let some: [Call] = [.pause, .resume, .pause, .resume, .restart]
            for _ in 0..<Int.random(in: 0...5, using: &random) { calls.append(drawn(some + Call.allCases)) }
            scenario.users.append(calls)
        }
        return scenario
    }

    /// Returns the scenarios for all sequences of a number of user calls, with servers of each kind.
    static func all(calls: Int) -> [EventScenario] {
        let replies: [[Reply]] = [[.events], [.lost], [.refused], [.silent], [.otherType]]
        let some: [Call] = [.pause, .resume, .cancel, .close, .restart]
        var programs: [[Call]] = [[.start]]
        for _ in 0..<calls { programs = programs.flatMap { program in some.map { program + [$0] } } }
        return [false, true].flatMap { isLate in
            replies.flatMap { replies in
                programs.map { EventScenario(replies: replies, users: [$0], isLate: isLate) }
            }
        }
    }
}

extension EventScenario.Reply {
    func events(for request: URLRequest) -> [SimulatedConnection.Event] {
        let last = request.value(forHTTPHeaderField: "Last-Event-ID").flatMap { Int($0) } ?? 0
        let head = SimulatedConnection.Event.head(200, [("Content-Type", "text/event-stream")])
        func pieces(_ count: Int) -> [SimulatedConnection.Event] {
            let numbers = (last + 1)...(last + max(1, count))
            guard count > 0, last < EventScenario.count else { return [] }
            let text = numbers.filter { $0 <= EventScenario.count }.map { "id: \($0)\ndata: \($0)\n\n" }.joined()
            let half = text.utf8.count / 2
            return [.data(Data(text.utf8.prefix(half))), .data(Data(text.utf8.dropFirst(half)))]
        }
        switch self {
        case .events: return [head] + pieces(2) + [.finish]
        case .lost: return [head] + pieces(2) + [.fail(.networkConnectionLost, [:])]
        case .nothing: return [head, .finish]
        case .refused: return [.fail(.cannotConnectToHost, [:])]
        case .failure: return [.head(404, [("Content-Length", "0")]), .finish]
        case .otherType:
            return [.head(200, [("Content-Type", "text/html"), ("Content-Length", "2")]), .data(Data("no".utf8)), .finish]
        case .silent: return [head] + pieces(1)
        }
    }
}
