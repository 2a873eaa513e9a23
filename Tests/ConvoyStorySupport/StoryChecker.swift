import ConvoyOperations
import ConvoyTransport

/// Checks the events of operations against what `OperationEvent` promises of their order, and keeps what breaks it.
public struct StoryChecker {
    private struct Story {
        var events: [OperationEvent] = []
        var isFinished = false
        /// The attempt that is under way.
        var attempt: Int?
        var attempts = 0
        var requests = 0
        /// The requests that are under way, with the phases that have ended.
        var open: [Int: [TransactionPhase]] = [:]
        var responded: Set<Int> = []
        var isPaused = false
        var waiting: WaitReason?
    }

    private var stories: [UInt64: Story] = [:]
    /// What was wrong, with the events until then.
    public private(set) var faults: [String] = []

    public init() {}

    public mutating func take(_ events: [OperationEvent]) { for event in events { take(event) } }

    public mutating func take(_ event: OperationEvent) {
        var story = stories[event.operationNumber] ?? Story()
        var fault = check(event, in: &story)
        if let last = story.events.last, last.time > event.time { fault = "earlier than the one before" }
        story.events.append(event)
        stories[event.operationNumber] = story
        if let fault { note(fault, story) }
    }

    private mutating func note(_ fault: String, _ story: Story) {
        faults.append(fault + ":\n" + story.events.map { "  \($0)" }.joined(separator: "\n"))
    }

    /// Whether all stories have their ends.
    public var isComplete: Bool { stories.values.allSatisfy(\.isFinished) }

    /// To be called when all operations have finished.
    public mutating func end() {
        for story in stories.values where !story.isFinished { note("no end", story) }
    }

    /// The events of an operation.
    public func events(of number: UInt64) -> [OperationEvent] { stories[number]?.events ?? [] }
    public var operationCount: Int { stories.count }
    public var allEvents: [OperationEvent] { stories.values.flatMap(\.events) }

    private func check(_ event: OperationEvent, in story: inout Story) -> String? {
        if story.isFinished { return "after the end" }
        if story.events.isEmpty {
            guard case .made = event.kind else { return "before it was made" }
            return nil
        }
        switch event.kind {
        case .made: return "made twice"
        case .enqueued, .redirected, .retryDecided, .servedFromCache, .stopped: return nil
        case .lost: return "lost"
        case .waiting(let reason):
            defer { story.waiting = reason }
            if story.isPaused { return "waits while paused" }
            return story.waiting == reason ? "waits for the same again" : nil
        case .attemptStarted(let number):
            if story.attempt != nil { return "two attempts at once" }
            defer { (story.attempt, story.attempts, story.waiting) = (number, number, nil) }
            return number == story.attempts + 1 ? nil : "an attempt with a wrong number"
        case .attemptEnded(let number):
            defer { story.attempt = nil }
            if !story.open.isEmpty { return "an attempt has ended before its requests" }
            return story.attempt == number ? nil : "the end of another attempt"
        case .requestStarted(let number, _):
            if story.attempt == nil { return "a request without an attempt" }
            defer { (story.open[number], story.requests) = ([], number) }
            return number == story.requests + 1 ? nil : "a request with a wrong number"
        case .phaseEnded(let phase, let number):
            guard let ended = story.open[number] else { return "a phase of no request" }
            story.open[number]?.append(phase)
            let order = TransactionPhase.allCases
            guard let last = ended.last, let place = order.firstIndex(of: phase), let before = order.firstIndex(of: last)
            else { return nil }
            return place > before ? nil : "a phase twice, or out of order"
        case .responded(let number, _):
            if story.open[number] == nil { return "a response to no request" }
            return story.responded.insert(number).inserted ? nil : "two responses to a request"
        case .requestEnded(let number, _, _):
            return story.open.removeValue(forKey: number) == nil ? "the end of no request" : nil
        case .paused:
            defer { (story.isPaused, story.waiting) = (true, nil) }
            return story.isPaused ? "paused twice" : nil
        case .resumed:
            defer { story.isPaused = false }
            return story.isPaused ? nil : "resumed, but not paused"
        case .finished:
            story.isFinished = true
            if story.attempt != nil { return "finished during an attempt" }
            return story.open.isEmpty ? nil : "finished during a request"
        }
    }
}
