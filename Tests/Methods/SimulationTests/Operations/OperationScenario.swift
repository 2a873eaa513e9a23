import ConvoyTestSupport
import Foundation

/// Operations in a queue, the responses of servers, and concurrent user calls.
struct OperationScenario: Scenario {
    /// A request.
    struct Request: Codable, Sendable {
        var method = "GET"
        /// The responses to the connections of the request, in order. After the last one, the server sends the complete
        /// body.
        var answers: [Answer] = []
        var place = Place.memory
        /// Whether the operation has a retry policy.
        var retries = false
        /// Whether the operation parses its body.
        var parses = false
        /// Whether the operation has a time limit.
        var expires = false
        /// Whether the operation is cancelled if a dependency fails.
        var followsFailure = false
    }

    enum Place: String, Codable, CaseIterable, Sendable {
        case memory
        /// A sink that executes every command immediately.
        case sink
        /// A user's sink, which is used on a worker.
        case slowSink
        /// A user's sink whose bytes are committed.
        case provisionalSink
    }

    /// A user's call, in which numbers identify operations.
    struct Call: Codable, Sendable, Equatable {
        enum Verb: String, CaseIterable, Sendable {
            case add, start, pause, resume, cancel, depend, free, priority, suspend, unsuspend, limit, cancelAll, pauseAll
            case resumeAll, addBatch, cancelBatch, repeats, handle, addBlock, addBarrier, observe
        }

        var verb: Verb
        var on = 0
        var other = 0

        var text: String { "\(verb.rawValue) \(on) \(other)" }

        init(_ verb: Verb, _ on: Int = 0, _ other: Int = 0) { (self.verb, self.on, self.other) = (verb, on, other) }

        init(from decoder: any Decoder) throws {
            let parts = try decoder.singleValueContainer().decode(String.self).split(separator: " ")
            guard parts.count == 3, let verb = Verb(rawValue: String(parts[0])), let on = Int(parts[1]),
                let other = Int(parts[2])
            else { throw CocoaError(.coderReadCorrupt) }
            (self.verb, self.on, self.other) = (verb, on, other)
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(text)
        }
    }

    var requests: [Request]
    var users: [[Call]]
    /// The maximum number of concurrent operations; 0 for no limit.
    var limit = 0
    /// The maximum number of concurrent operations per host. Requests with even numbers go to one host, the others to
    /// another.
    var hostLimit = 0
    /// Whether the action of each change is a separate step, which may be delayed.
    var isLate = false
    /// Whether the operations have observers, a completion group and progress handlers. Without them, they take shorter
    /// code paths.
    var isWatched = false
    /// Whether a batch has all operations as its members.
    var hasBatch = false

    var simpler: [OperationScenario] {
        var found: [OperationScenario] = []
        func add(_ change: (inout OperationScenario) -> Void) {
            var copy = self
            change(&copy)
            found.append(copy)
        }
        for index in requests.indices.reversed() where requests.count > 1 { add { $0.drop(index) } }
        for user in users.indices.reversed() where users.count > 1 { add { $0.users.remove(at: user) } }
        for user in users.indices {
            for call in users[user].indices.reversed() { add { $0.users[user].remove(at: call) } }
        }
        if isLate { add { $0.isLate = false } }
        if isWatched { add { $0.isWatched = false } }
        if hasBatch { add { $0.hasBatch = false } }
        if limit != 0 { add { $0.limit = 0 } }
        if hostLimit != 0 { add { $0.hostLimit = 0 } }
        for index in requests.indices {
            for answer in requests[index].answers.indices { add { $0.requests[index].answers.remove(at: answer) } }
            if requests[index].place != .memory { add { $0.requests[index].place = .memory } }
            if requests[index].retries { add { $0.requests[index].retries = false } }
            if requests[index].parses { add { $0.requests[index].parses = false } }
            if requests[index].expires { add { $0.requests[index].expires = false } }
            if requests[index].followsFailure { add { $0.requests[index].followsFailure = false } }
            if requests[index].method != "GET" { add { $0.requests[index].method = "GET" } }
        }
        return found
    }

    /// Removes a request, together with its calls.
    private mutating func drop(_ index: Int) {
        requests.remove(at: index)
        func moved(_ number: Int) -> Int { number > index ? number - 1 : number }
        users = users.map { calls in
            calls.filter { $0.on != index && ($0.other != index || ![.depend, .free].contains($0.verb)) }
                .map { Call($0.verb, moved($0.on), [.depend, .free].contains($0.verb) ? moved($0.other) : $0.other) }
        }
    }

    func play(tells: Bool, _ pick: (Int) -> Int) -> Play {
        OperationWorld(self, tells: tells).play(pick)
    }

    /// Returns the scenarios of one user with a number of calls and a server, for one or two operations. They are small
    /// enough to try all orders.
    static func all(calls: Int) -> [OperationScenario] {
        let requests =
            [Request(), Request(answers: [.refused]), Request(answers: [.lost])]
            + [[Answer.lost], [.unsent], [.refused], [.asks], [.moved], [.busy]].map { Request(answers: $0, retries: true) }
        let some = [Call(.pause), Call(.resume), Call(.cancel)]
        var found: [OperationScenario] = []
        for isLate in [false, true] {
            for (number, request) in requests.enumerated() {
                for program in programs(of: some, length: calls) {
                    found.append(
                        OperationScenario(
                            requests: [request], users: [[Call(.add)] + program], limit: 1, isLate: isLate,
                            isWatched: number % 2 == 1))
                }
            }
            // Two users make concurrent calls for a request that is sent again.
            for answer in [Answer.lost, .unsent] {
                for program in programs(of: some, length: calls - 1) {
                    found.append(
                        OperationScenario(
                            requests: [Request(answers: [answer], retries: answer == .lost)],
                            users: [[Call(.start)] + program, [Call(.resume)]], isLate: isLate))
                }
            }
            let onTwo = [
                Call(.pause), Call(.resume), Call(.cancel), Call(.cancel, 1), Call(.free, 1, 0), Call(.cancelBatch),
            ]
            for program in programs(of: onTwo, length: calls - 1) {
                found.append(
                    OperationScenario(
                        requests: [Request(), Request(followsFailure: true)],
                        users: [[Call(.depend, 1, 0), Call(.add, 1), Call(.add), Call(.addBatch)] + program], limit: 1,
                        isLate: isLate, isWatched: true, hasBatch: true))
            }
            for place in Place.allCases where place != .memory {
                for program in programs(of: some, length: calls - 1) {
                    found.append(
                        OperationScenario(
                            requests: [Request(place: place, parses: true)], users: [[Call(.start)] + program],
                            isLate: isLate))
                }
            }
        }
        return found
    }

    /// Returns all sequences of calls.
    private static func programs(of calls: [Call], length: Int) -> [[Call]] {
        (0..<max(0, length)).reduce([[]]) { programs, _ in programs.flatMap { program in calls.map { program + [$0] } } }
    }

    /// Returns a random scenario.
    static func drawn(_ random: inout SplitMix64) -> OperationScenario {
        func chance(_ share: Int) -> Bool { Int.random(in: 0..<share, using: &random) == 0 }
        let count = [1, 1, 2, 2, 3, 4][Int.random(in: 0..<6, using: &random)]
        var scenario = OperationScenario(requests: [], users: [])
        for _ in 0..<count {
            var request = Request()
            if chance(4) { request.method = "POST" }
            let answers = Answer.allCases
            if chance(2) {
                request.answers = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                    answers[Int.random(in: 0..<answers.count, using: &random)]
                }
            }
            request.retries = chance(2)
            request.parses = chance(3)
            request.expires = chance(6)
            request.followsFailure = chance(4)
            if chance(3) { request.place = Place.allCases[Int.random(in: 0..<Place.allCases.count, using: &random)] }
            scenario.requests.append(request)
        }
        if chance(2) { scenario.limit = Int.random(in: 1...2, using: &random) }
        if chance(3) { scenario.hostLimit = 1 }
        scenario.isLate = chance(2)
        scenario.isWatched = chance(2)
        scenario.hasBatch = chance(4)
        // Most operations are enqueued, because users rarely start operations themselves.
        let isQueued = !chance(5)
        var first: [Call] = []
        for index in 0..<count {
            if index > 0, chance(3) { first.append(Call(.depend, index, Int.random(in: 0..<index, using: &random))) }
            first.append(Call(isQueued ? .add : .start, index))
        }
        if scenario.hasBatch { first.insert(Call(.addBatch), at: Int.random(in: 0...first.count, using: &random)) }
        for user in 0..<Int.random(in: 1...2, using: &random) {
            var calls = user == 0 ? first : []
            for _ in 0..<Int.random(in: 0...5, using: &random) {
                calls.append(.drawn(count, &random))
            }
            scenario.users.append(calls)
        }
        return scenario
    }
}

extension OperationScenario.Call {
    fileprivate static func drawn(_ count: Int, _ random: inout SplitMix64) -> Self {
        let often: [Verb] = [.pause, .resume, .pause, .resume, .cancel]
        let index = Int.random(in: 0..<(often.count + Verb.allCases.count), using: &random)
        let verb = index < often.count ? often[index] : Verb.allCases[index - often.count]
        let on = Int.random(in: 0..<count, using: &random)
        switch verb {
        case .depend, .free: return on == 0 ? Self(.pause, 0) : Self(verb, on, Int.random(in: 0..<on, using: &random))
        case .priority: return Self(verb, on, [-8, -4, 0, 4, 8][Int.random(in: 0..<5, using: &random)])
        case .limit: return Self(verb, 0, Int.random(in: 1...3, using: &random))
        default: return Self(verb, on)
        }
    }
}
