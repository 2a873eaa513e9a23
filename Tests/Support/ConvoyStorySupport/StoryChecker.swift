import ConvoyOperations
import ConvoyTransport

/// Checks that the events of operations have the order that `OperationEvent` documents, and collects violations.
public struct StoryChecker {
    private struct Story {
        var events: [OperationEvent] = []
        var isFinished = false
        /// The number of the running attempt.
        var attempt: Int?
        var attempts = 0
        var requests = 0
        /// The running requests, with their completed phases.
        var open: [Int: [TransactionPhase]] = [:]
        var responded: Set<Int> = []
        var isPaused = false
        var waiting: WaitReason?
    }

    private var stories: [UInt64: Story] = [:]
    /// The violations, each with the events of its operation up to that point.
    public private(set) var faults: [String] = []

    public init() {}

    public mutating func take(_ events: [OperationEvent]) { for event in events { take(event) } }

    public mutating func take(_ event: OperationEvent) {
        var story = stories[event.operationNumber] ?? Story()
        var fault = check(event, in: &story)
        if let last = story.events.last, last.time > event.time { fault = "an event is earlier than the previous one" }
        story.events.append(event)
        stories[event.operationNumber] = story
        if let fault { note(fault, story) }
    }

    private mutating func note(_ fault: String, _ story: Story) {
        faults.append(fault + ":\n" + story.events.map { "  \($0)" }.joined(separator: "\n"))
    }

    /// Whether all observed operations have finished.
    public var isComplete: Bool { stories.values.allSatisfy(\.isFinished) }

    /// Adds a violation for each operation without a final event. Call this when all operations have finished.
    public mutating func end() {
        for story in stories.values where !story.isFinished { note("the final event is missing", story) }
    }

    /// Returns the events of an operation.
    public func events(of number: UInt64) -> [OperationEvent] { stories[number]?.events ?? [] }
    public var operationCount: Int { stories.count }
    public var allEvents: [OperationEvent] { stories.values.flatMap(\.events) }

    private func check(_ event: OperationEvent, in story: inout Story) -> String? {
        if story.isFinished { return "an event after the final one" }
        if story.events.isEmpty {
            guard case .made = event.kind else { return "an event before the creation" }
            return nil
        }
        switch event.kind {
        case .made: return "created twice"
        case .enqueued, .redirected, .retryDecided, .servedFromCache, .stopped: return nil
        case .lost: return "events were lost"
        case .waiting(let reason):
            defer { story.waiting = reason }
            if story.isPaused { return "a wait during a pause" }
            return story.waiting == reason ? "the same wait twice" : nil
        case .attemptStarted(let number):
            if story.attempt != nil { return "two concurrent attempts" }
            defer { (story.attempt, story.attempts, story.waiting) = (number, number, nil) }
            return number == story.attempts + 1 ? nil : "an attempt with an unexpected number"
        case .attemptEnded(let number):
            defer { story.attempt = nil }
            if !story.open.isEmpty { return "an attempt ended before its requests" }
            return story.attempt == number ? nil : "the end of an attempt that is not running"
        case .continued: return story.attempt == nil ? "continued without an attempt" : nil
        case .requestStarted(let number, _):
            if story.attempt == nil { return "a request outside an attempt" }
            defer { (story.open[number], story.requests) = ([], number) }
            return number == story.requests + 1 ? nil : "a request with an unexpected number"
        case .phaseEnded(let phase, let number):
            guard let ended = story.open[number] else { return "a phase of a request that is not running" }
            story.open[number]?.append(phase)
            let order = TransactionPhase.allCases
            guard let last = ended.last, let place = order.firstIndex(of: phase), let before = order.firstIndex(of: last)
            else { return nil }
            return place > before ? nil : "a repeated phase, or phases in the wrong order"
        case .responded(let number, _):
            if story.open[number] == nil { return "a response to a request that is not running" }
            return story.responded.insert(number).inserted ? nil : "two responses to one request"
        case .requestEnded(let number, _, _):
            return story.open.removeValue(forKey: number) == nil ? "the end of a request that is not running" : nil
        case .paused:
            defer { (story.isPaused, story.waiting) = (true, nil) }
            return story.isPaused ? "paused twice" : nil
        case .resumed:
            defer { story.isPaused = false }
            return story.isPaused ? nil : "resumed without a pause"
        case .finished:
            story.isFinished = true
            if story.attempt != nil { return "finished during an attempt" }
            return story.open.isEmpty ? nil : "finished during a request"
        }
    }
}
