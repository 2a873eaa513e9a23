import ConvoySerialization
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyRealtime

/// The rules that derive a value from events and fetches, tested with generated interleavings.
@Suite struct SubscriptionStateTests {
    enum Identifiers: CaseIterable { case numbers, gaps, opaque }

    /// A model of a client, a network with delays, and a server. Each event lengthens the document, which is a list, so
    /// that events that are applied twice or not at all are detected.
    struct Model {
        var generator: SplitMix64
        let identifiers: Identifiers
        let resumes: Bool
        var state = SubscriptionState()
        /// The identifier of each version; the first is that of the empty list.
        var versions: [String] = []
        /// The events in transit, by version.
        var stream: [Int] = []
        /// The last event received by the client.
        var received = 0
        /// The requested fetches, and the sent ones, with the version of their response once the server has received
        /// them.
        var asked: [Int] = []
        var sent: [(number: Int, version: Int?)] = []
        var failure: (any Error)?

        init(_ generator: SplitMix64, _ identifiers: Identifiers, resumes: Bool) {
            (self.generator, self.identifiers, self.resumes) = (generator, identifiers, resumes)
            state.resumesByEventID = resumes
            for _ in 0...Int.random(in: 0...3, using: &self.generator) { addVersion() }
            received = versions.count - 1
        }

        private mutating func addVersion() {
            switch identifiers {
            case .numbers: versions.append(String(versions.count + 1))
            case .gaps: versions.append(String((Int(versions.last ?? "") ?? 0) + .random(in: 1...9, using: &generator)))
            case .opaque: versions.append(String(generator.next(), radix: 36))
            }
        }

        func document(_ version: Int) -> JSON { .array((0..<version).map { .number(JSONNumber($0 + 1)) }) }

        mutating func change() {
            addVersion()
            stream.append(versions.count - 1)
        }

        mutating func deliver() {
            guard !stream.isEmpty else { return }
            let version = stream.removeFirst()
            received = version
            state.received(
                ServerSentEvent(
                    type: "patch", data: #"[{"op":"add","path":"/-","value":\#(version)}]"#, lastEventID: versions[version]))
            settle()
        }

        mutating func connect() {
            // Events in transit are lost; the server sends them again, or continues with later ones.
            stream = resumes && received > 0 ? Array((received + 1)..<max(versions.count, received + 1)) : []
            state.opened()
            settle()
        }

        mutating func send() {
            guard !asked.isEmpty else { return }
            let number = asked.removeFirst()
            if state.willFetch(number) { sent.append((number, nil)) }
        }

        mutating func answer() {
            guard let index = sent.indices.randomElement(using: &generator) else { return }
            guard let version = sent[index].version else { return sent[index].version = versions.count - 1 }
            let fetch = sent.remove(at: index)
            if Int.random(in: 0...9, using: &generator) == 0 {
                state.fetchFailed(fetch.number, URLError(.networkConnectionLost), isTemporary: true)
            } else {
                state.fetched(fetch.number, document(version), version: versions[version])
            }
            settle()
        }

        mutating func settle() {
            for action in state.takeOutcome().actions {
                switch action {
                case .fetch(let number, _): asked.append(number)
                case .fail(let error): failure = error
                }
            }
        }

        /// Whether the value is one that the server had, and its version matches.
        var isConsistent: Bool {
            guard case .array(let elements) = state.value else { return state.value == nil }
            return elements.count < versions.count && state.value == document(elements.count)
                && (state.version == versions[elements.count])
        }
    }

    @Test(arguments: Identifiers.allCases, [true, false])
    func `the value is always one that the server had, and finally the latest`(
        identifiers: Identifiers, resumes: Bool
    ) {
        var seeds = SplitMix64.printingSeed()
        for round in 0..<PropertyBudget.rounds(300) {
            var model = Model(seeds.fork(), identifiers, resumes: resumes)
            model.connect()
            for _ in 0..<60 {
                switch Int.random(in: 0...11, using: &model.generator) {
                case 0...3: model.change()
                case 4...7: model.deliver()
                case 8: model.send()
                case 9, 10: model.answer()
                default: if Int.random(in: 0...3, using: &model.generator) == 0 { model.connect() }
                }
                #expect(
                    model.isConsistent, "round \(round): \(String(describing: model.state.value)) \(model.state.version)")
            }
            // Make one more change, and deliver everything.
            model.change()
            var steps = 0
            while !model.stream.isEmpty || !model.asked.isEmpty || !model.sent.isEmpty, steps < 10_000 {
                steps += 1
                if Bool.random(using: &model.generator) { model.deliver() } else { model.send() }
                if Bool.random(using: &model.generator) { model.answer() }
            }
            #expect(model.failure == nil, "round \(round)")
            #expect(model.state.value == model.document(model.versions.count - 1), "round \(round)")
        }
    }

    // MARK: Single cases

    private func patch(_ value: Int, id: String = "") -> ServerSentEvent {
        ServerSentEvent(type: "patch", data: #"[{"op":"add","path":"/-","value":\#(value)}]"#, lastEventID: id)
    }

    private func fetches(_ state: inout SubscriptionState) -> [Int] {
        state.takeOutcome().actions.compactMap { if case .fetch(let number, _) = $0 { number } else { nil } }
    }

    @Test func `without versions, an event during a fetch causes another fetch`() throws {
        var state = SubscriptionState()
        state.opened()
        let fetches1 = fetches(&state)
        #expect(fetches1 == [1])
        state.received(patch(1))
        let isWanted2 = state.willFetch(1)
        #expect(isWanted2)
        state.received(patch(2))
        state.fetched(1, [1], version: "")
        #expect(state.value == nil)
        let fetches4 = fetches(&state)
        #expect(fetches4 == [2])
        let isWanted5 = state.willFetch(2)
        #expect(isWanted5)
        state.fetched(2, [1, 2], version: "")
        state.received(patch(3))
        #expect(state.value == [1, 2, 3])
        let fetches7 = fetches(&state)
        #expect(fetches7 == [])
        // After a reconnection, the client cannot know which events were lost.
        state.opened()
        let fetches8 = fetches(&state)
        #expect(fetches8 == [3])
        let isWanted9 = state.willFetch(3)
        #expect(isWanted9)
        state.received(ServerSentEvent(type: "other", data: ""))
        state.fetched(3, [1, 2, 3, 4], version: "")
        #expect(state.value == [1, 2, 3, 4])
        let fetches11 = fetches(&state)
        #expect(fetches11 == [])
    }

    @Test func `a value in an event supersedes the one being fetched`() throws {
        var state = SubscriptionState()
        state.opened()
        let isWanted12 = state.willFetch(1)
        #expect(isWanted12)
        state.received(ServerSentEvent(type: "put", data: "[7]", lastEventID: "a"))
        state.fetched(1, [1], version: "")
        state.received(patch(8, id: "b"))
        #expect(state.value == [7, 8] && state.version == "b")
        let changes = state.takeOutcome().changes.map(\.change)
        #expect(changes == [.value([7]), .patch([.add(path: ["-"], value: 8)])])
    }

    @Test func `a patch that does not apply causes a fetch, and is applied unless the result includes it`() throws {
        for (version, expected) in [("b", [2] as JSON), ("a", [2, 7]), ("c", [2])] {
            var state = SubscriptionState()
            state.opened()
            let isWanted13 = state.willFetch(1)
            #expect(isWanted13)
            state.fetched(1, "no array", version: "a")
            state.received(patch(7, id: "a"))
            _ = state.takeOutcome()
            state.received(patch(7, id: "b"))
            let fetches14 = fetches(&state)
            #expect(fetches14 == [2])
            let isWanted15 = state.willFetch(2)
            #expect(isWanted15)
            #expect(state.value == "no array")
            if version == "c" { state.received(patch(8, id: "c")) }
            state.fetched(2, [2], version: version)
            #expect(state.value == expected)
        }
    }

    @Test(arguments: ["no JSON", "{}", #"[{"op":"remove","path":"/9"}]"#])
    func `a patch that never applies ends the subscription after a limited number of fetches`(data: String) throws {
        var state = SubscriptionState()
        state.opened()
        _ = state.willFetch(1)
        state.fetched(1, [], version: "1")
        state.received(ServerSentEvent(type: "patch", data: data, lastEventID: "2"))
        var count = 0
        while count < 100 {
            let actions = state.takeOutcome().actions
            if actions.contains(where: { if case .fail(let error) = $0 { error is SubscriptionError } else { false } }) {
                break
            }
            guard case .fetch(let number, let delay)? = actions.last else {
                Issue.record("no action is necessary")
                break
            }
            #expect(delay <= 30 && (count == 0) == (delay == 0))
            _ = state.willFetch(number)
            state.fetched(number, [], version: "1")
            count += 1
        }
        #expect(count == 8)
    }

    @Test func `an outdated cached value is not used`() throws {
        var state = SubscriptionState()
        state.opened()
        _ = state.willFetch(1)
        state.fetched(1, [1], version: "1")
        for number in 2...5 { state.received(patch(number, id: String(number))) }
        state.received(ServerSentEvent(type: "patch", data: "?", lastEventID: "6"))
        let fetches17 = fetches(&state)
        #expect(fetches17 == [1, 2])
        let isWanted18 = state.willFetch(2)
        #expect(isWanted18)
        state.fetched(2, [1, 2], version: "2")
        let fetches19 = fetches(&state)
        #expect(fetches19 == [3])
        let isWanted20 = state.willFetch(3)
        #expect(isWanted20)
        #expect(state.value == [1, 2, 3, 4, 5])
        state.fetched(3, [1, 2, 3, 4, 5, 6], version: "6")
        state.received(patch(7, id: "7"))
        #expect(state.value == [1, 2, 3, 4, 5, 6, 7])
    }

    @Test func `no event is applied twice if fetched values are ahead of the stream`() throws {
        func document(_ count: Int) -> JSON { .array((1...count).map { .number(JSONNumber($0)) }) }
        var state = SubscriptionState()
        state.opened()
        for place in 1...30 {
            for number in fetches(&state) where place <= 9 && state.willFetch(number) {
                state.received(patch(place, id: "event \(place)"))
                state.fetched(number, document(place + 15), version: "event \(place + 15)")
            }
            if place > 9 { state.received(patch(place, id: "event \(place)")) }
        }
        #expect(state.value == document(30) && state.version == "event 30")
    }

    @Test func `a missing document ends the subscription, and an unreachable one is fetched again`() throws {
        var state = SubscriptionState()
        state.opened()
        _ = state.willFetch(1)
        state.fetchFailed(1, URLError(.networkConnectionLost), isTemporary: true)
        guard case .fetch(2, let delay)? = state.takeOutcome().actions.last else { throw CocoaError(.featureUnsupported) }
        #expect(delay == 0.5)
        _ = state.willFetch(2)
        state.fetchFailed(2, URLError(.fileDoesNotExist), isTemporary: false)
        guard case .fail(let error)? = state.takeOutcome().actions.last else { throw CocoaError(.featureUnsupported) }
        #expect((error as? URLError)?.code == .fileDoesNotExist)
    }

    @Test func `the events kept during a fetch are limited`() throws {
        var state = SubscriptionState()
        state.opened()
        let fetches22 = fetches(&state)
        #expect(fetches22 == [1])
        let isWanted23 = state.willFetch(1)
        #expect(isWanted23)
        let text = String(repeating: "x", count: 1 << 20)
        for number in 1...70 {
            state.received(
                ServerSentEvent(
                    type: "patch", data: #"[{"op":"add","path":"/-","value":"\#(text)"}]"#, lastEventID: String(number)))
        }
        let fetches24 = fetches(&state)
        #expect(fetches24 == [2])
        let isWanted25 = state.willFetch(2)
        #expect(isWanted25)
        state.fetched(1, [], version: "0")
        // The fetched value is older than the dropped events.
        state.fetched(2, [], version: "3")
        #expect(state.value == nil)
        let fetches27 = fetches(&state)
        #expect(fetches27 == [3])
        let isWanted28 = state.willFetch(3)
        #expect(isWanted28)
        state.fetched(3, ["66"], version: "66")
        guard case .array(let elements) = state.value else { throw CocoaError(.featureUnsupported) }
        #expect(elements.count == 5 && state.version == "70")
    }
}
