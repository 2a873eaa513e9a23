import ConvoySupport
import Foundation

extension TestServer {
    /// Serves pseudorandom bytes with the given server behaviour.
    ///
    /// ```swift
    /// for behaviour in ServerBehaviour.allCases where !behaviour.isUndetectable {
    ///     let resource = server.route("/\(behaviour)", behaving: behaviour, size: 100_000)
    ///     // … download server.url(resource.path), interrupting and resuming …
    ///     #expect(resource.accepts(body))
    /// }
    /// ```
    ///
    /// A handler thread answers requests for the path and for "PATH/elsewhere", the redirect target of some behaviours.
    ///
    /// - Parameters:
    ///   - path: The path, without a query.
    ///   - behaviour: The behaviour of the server, correct or not.
    ///   - size: The size of the entity in bytes.
    ///   - seed: The seed for the bytes of the entity and for all random choices of the behaviour.
    ///   - slice: The number of body bytes to send at once; 0 sends all of them.
    ///   - delay: The time between two slices, in seconds.
    ///   - adjust: A closure that may change the response to each request, for example to pause the first response
    ///     halfway.
    /// - Returns: The resource, which records its requests and the acceptable results.
    @discardableResult
    public func route(
        _ path: String, behaving behaviour: ServerBehaviour, size: Int, seed: UInt64 = 1, slice: Int = 0,
        delay: TimeInterval = 0, adjust: (@Sendable (RecordedRequest, Response) -> Response)? = nil
    ) -> BehavingResource {
        let resource = BehavingResource(
            behaviour, path: path, size: size, seed: seed,
            pace: slice > 0 ? .drip(bytes: slice, interval: delay) : .unlimited, adjust: adjust)
        route("GET", path) { resource.response(to: $0, isElsewhere: false) }
        route("GET", path + "/elsewhere") { resource.response(to: $0, isElsewhere: true) }
        return resource
    }

    /// Removes the routes of a resource.
    public func removeRoute(_ resource: BehavingResource) {
        removeRoute(resource.path)
        removeRoute(resource.path + "/elsewhere")
    }
}

/// A resource served with a `ServerBehaviour`, which records its requests and the acceptable results of a download.
///
/// Created by `TestServer.route(_:behaving:size:seed:)`. All members can be used from any thread.
public final class BehavingResource: Sendable {
    /// A request for the resource and the status of its response.
    public struct Answer: Hashable, Sendable {
        /// The `Range` field of the request.
        public var range: String?
        /// The status; 0 if the answer was not an HTTP response.
        public var status: Int
    }

    private struct State {
        var answers: [Answer] = []
        var entities: [Int: Data] = [:]
        var acceptable: [Int: [Data]] = [:]
    }

    /// The behaviour with which the resource is served.
    public let behaviour: ServerBehaviour
    /// The size of the first version in bytes.
    public let size: Int
    /// The path of the resource.
    public let path: String
    private let seed: UInt64
    private let script: BehaviourScript
    private let pace: TestServer.Effects.Pace
    private let adjust: (@Sendable (RecordedRequest, TestServer.Response) -> TestServer.Response)?
    private let state = Locked(State())

    init(
        _ behaviour: ServerBehaviour, path: String, size: Int, seed: UInt64, pace: TestServer.Effects.Pace,
        adjust: (@Sendable (RecordedRequest, TestServer.Response) -> TestServer.Response)?
    ) {
        self.behaviour = behaviour
        self.path = path
        self.size = max(0, size)
        self.seed = seed
        self.pace = pace
        self.adjust = adjust
        script = behaviour.script
    }

    /// The requests received so far and the statuses of their responses, in order.
    public var answers: [Answer] { state.withLock { $0.answers } }

    /// Returns the acceptable results of a download that ends with the given status. For 200, these are the complete
    /// representations that were current at any of the requests; for another status, the bodies sent with that status.
    /// A download cannot end with 206.
    package func acceptableBodies(status: Int = 200) -> [Data] {
        state.withLock { $0.acceptable[status] ?? [] }
    }

    /// Returns whether `acceptableBodies(status:)` contains the given body.
    public func accepts(_ body: Data, status: Int = 200) -> Bool {
        acceptableBodies(status: status).contains(body)
    }

    /// The bytes of the first version.
    package var firstVersion: Data { entity(0) }

    func response(to request: RecordedRequest, isElsewhere: Bool) -> TestServer.Response {
        // Reserve the position in the log now and fill it in later, because the pool may answer two requests
        // concurrently.
        let range = request.headers["Range"]
        let number = state.withLock { state in
            state.answers.append(Answer(range: range, status: 0))
            return state.answers.count - 1
        }
        let version = script.version(number, isElsewhere)
        let exchange = BehaviourExchange(
            number: number, isElsewhere: isElsewhere, version: version, entity: entity(version),
            asked: Self.offset(range), askedLast: Self.last(range),
            name: path.split(separator: "/").last.map(String.init) ?? "", seed: seed)
        var response = script.answer(exchange, ifRange: request.headers["If-Range"])
        if script.sendsDate, response.headers["Date"] == nil {
            response.headers.add("Date", HTTPDate.string(Date()))
        }
        response.effects.pace = pace
        if let adjust { response = adjust(request, response) }
        note(response, number, exchange.entity)
        return response
    }

    private static func offset(_ range: String?) -> Int? {
        guard let range, case .from(let first, _)? = ByteRange.single(range) else { return nil }
        return first
    }

    private static func last(_ range: String?) -> Int? {
        guard let range, case .from(_, let last)? = ByteRange.single(range) else { return nil }
        return last
    }

    private func entity(_ version: Int) -> Data {
        if let entity = state.withLock({ $0.entities[version] }) { return entity }
        let count = script.shrinks ? size >> min(version, 62) : size
        let entity = EntityBytes.data(seed: seed, version: version, count: count)
        state.withLock { $0.entities[version] = entity }
        return entity
    }

    /// Records the bodies that a client may accept if it interprets the response correctly.
    private func note(_ response: TestServer.Response, _ number: Int, _ entity: Data) {
        var bodies = [(200, entity)]
        var isHTTP = true
        switch response.body {
        case .raw: isHTTP = false
        case .data(let body):
            if response.status == 200, response.framing == .closeDelimited,
                case .close(let count) = response.effects.fault
            {
                bodies.append((200, Data(body.prefix(count))))
            }
            // A client must accept the body of a 200 as complete, even an empty one.
            if response.status == 200, body.isEmpty { bodies.append((200, Data())) }
            if response.status != 200, response.status != 206 { bodies.append((response.status, Data(body))) }
        default:
            if response.status != 206 { bodies.append((response.status, Data())) }
        }
        state.withLock { state in
            state.answers[number].status = isHTTP ? response.status : 0
            for (status, body) in bodies where state.acceptable[status]?.contains(body) != true {
                state.acceptable[status, default: []].append(body)
            }
        }
    }
}

/// The bytes of an entity: pseudorandom, determined by the seed and the version.
enum EntityBytes {
    static func data(seed: UInt64, version: Int, count: Int) -> Data {
        guard count > 0 else { return Data() }
        var generator = SeededGenerator(seed, UInt64(truncatingIfNeeded: version))
        var words = [UInt64](repeating: 0, count: (count + 7) / 8)
        words.withUnsafeMutableBufferPointer { words in
            for index in words.indices { words[index] = generator.next() }
        }
        return words.withUnsafeBytes { Data($0.prefix(count)) }
    }
}

/// A seeded random number generator (SplitMix64), so that failures can be reproduced.
struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    init(_ seeds: UInt64...) {
        state = 0
        for seed in seeds { state = (next() ^ seed) &* 0x9E37_79B9_7F4A_7C15 }
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z &>> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z &>> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z &>> 31)
    }
}
