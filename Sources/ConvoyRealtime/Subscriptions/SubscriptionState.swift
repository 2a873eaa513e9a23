import ConvoySerialization
import Foundation

/// The value of a subscription, and how it follows from the events: a plain state machine, which does no I/O.
///
/// While the value is being fetched, events are kept. When it has come, its version says which of them it contains: the `id`
/// of an event, in the field `Last-Event-ID` of the response. One that is none of those that have come, nor of the one before
/// them, is compared as a number, if it is one. Otherwise only a further fetch can tell whether it is an older one, or one of
/// an event that is still on its way.
///
/// Without versions it is unknown whether an event that comes during a fetch is contained: then the value is fetched again, a
/// few times.
struct SubscriptionState {
    enum Action {
        /// Fetch the value, after so many seconds. The fetch before is of no use any more.
        case fetch(number: Int, delay: TimeInterval)
        /// End the subscription.
        case fail(any Error)
    }

    private enum Phase {
        /// There is no value, and none is being fetched.
        case waiting
        case fetching
        /// The value has a version, but no event has shown yet where that is in the stream.
        case uncertain
        /// Each event is a change of the value.
        case following
    }

    /// How often in a row the value is fetched because an event could not be placed.
    private static let maximumAttempts = 5
    /// How often in a row the value is fetched because an event could not be applied.
    private static let maximumFailures = 8
    /// How many bytes of events are kept during a fetch.
    private static let maximumKeptLength = 64 << 20

    /// Whether the value is fetched; otherwise the server sends it.
    var fetchesValue = true
    /// Whether the server goes on behind the `Last-Event-ID` of a new connection.
    var resumesByEventID = true
    var maximumDepth = 512

    private(set) var value: JSON?
    /// The identifier of the last event that the value contains; empty if it is not known.
    private(set) var version = ""

    private var phase = Phase.waiting
    private var isOpened = false
    private var changes: [(change: SubscriptionChange, cost: Int)] = []
    private var actions: [Action] = []
    /// What has come since the fetch became necessary.
    private var kept: [ServerSentEvent] = []
    private var keptLength = 0
    /// How many of those had come before the request was sent.
    private var settled = 0
    /// The identifier of the event before those, if all since then have been kept.
    private var base = ""
    private var lastEventID = ""
    private var fetchNumber = 0
    private var attempts = 0
    private var failures = 0
    private var fetchErrors = 0
    /// A value that has come, and whose version may be that of an event which is still on its way.
    private var candidate: (value: JSON, version: String)?

    /// What has changed, and what is to be done, since the last call. The cost is the length of a patch's text, in bytes.
    mutating func takeOutcome() -> (changes: [(change: SubscriptionChange, cost: Int)], actions: [Action]) {
        defer { (changes, actions) = ([], []) }
        return (changes, actions)
    }

    // MARK: Events

    /// A connection is open.
    mutating func opened() {
        defer { isOpened = true }
        guard fetchesValue else { return }
        if isOpened, resumesByEventID, !lastEventID.isEmpty, phase != .uncertain { return }
        // What came in between is lost.
        (kept, keptLength, base, candidate) = ([], 0, "", nil)
        fetch()
    }

    mutating func received(_ event: ServerSentEvent) {
        handle(event)
        lastEventID = event.lastEventID
    }

    private mutating func handle(_ event: ServerSentEvent) {
        if event.type == "put" { return put(event) }
        switch phase {
        case .waiting: break
        case .fetching:
            if let candidate, candidate.version == event.lastEventID {
                // What is under way is not needed any more.
                fetchNumber += 1
                return adopt(candidate.value, candidate.version, then: [], .following)
            }
            keep(event)
        case .following: apply(event)
        case .uncertain:
            if event.lastEventID.isEmpty { return follow(event) }
            if event.lastEventID == version {
                (phase, attempts) = (.following, 0)
            } else if let number = Self.number(event.lastEventID), let last = Self.number(version) {
                // One that is contained comes late.
                if number > last { follow(event) }
            } else {
                base = ""
                candidate = (value ?? .null, version)
                keep(event)
                fetch(delay: Self.delay(attempts))
            }
        }
    }

    private mutating func follow(_ event: ServerSentEvent) {
        (phase, attempts) = (.following, 0)
        apply(event)
    }

    /// The server has sent the value itself, in its place among the events.
    private mutating func put(_ event: ServerSentEvent) {
        do throws(JSONSyntaxError) {
            set(try JSON(parsing: Data(event.data.utf8), maximumDepth: maximumDepth), version: event.lastEventID)
        } catch {
            return recover(from: event, error)
        }
        (kept, keptLength, candidate, phase, attempts, failures) = ([], 0, nil, .following, 0, 0)
        // What is under way is older.
        fetchNumber += 1
    }

    private mutating func apply(_ event: ServerSentEvent) {
        if event.type == "patch" {
            do {
                let patch = try JSONPatch(parsing: Data(event.data.utf8), maximumDepth: maximumDepth)
                // Taken out, so that it is changed in place.
                var current = value.take() ?? .null
                defer { value = current }
                try patch.apply(to: &current)
                changes.append((.patch(patch), event.data.utf8.count))
            } catch {
                return recover(from: event, error)
            }
            failures = 0
        }
        version = event.lastEventID
    }

    /// Fetches the value again, as an event cannot be applied to it.
    private mutating func recover(from event: ServerSentEvent, _ error: any Error) {
        failures += 1
        guard fetchesValue, failures <= Self.maximumFailures else {
            phase = .waiting
            actions.append(.fail(SubscriptionError.unusableEvents(error)))
            return
        }
        (kept, keptLength, base, candidate) = ([], 0, phase == .fetching ? "" : version, nil)
        keep(event)
        fetch(delay: Self.delay(failures - 1))
    }

    private mutating func keep(_ event: ServerSentEvent) {
        keptLength += event.data.utf8.count + 64
        if keptLength > Self.maximumKeptLength {
            (kept, keptLength, base, candidate) = ([], 0, event.lastEventID, nil)
            fetch(delay: Self.delay(attempts))
        } else {
            kept.append(event)
        }
    }

    // MARK: Fetching

    private mutating func fetch(delay: TimeInterval = 0) {
        fetchNumber += 1
        phase = .fetching
        settled = kept.count
        actions.append(.fetch(number: fetchNumber, delay: delay))
    }

    /// The request is about to be sent. False if nobody wants its response.
    mutating func willFetch(_ number: Int) -> Bool {
        guard number == fetchNumber, phase == .fetching else { return false }
        settled = kept.count
        return true
    }

    /// The value has come, with the identifier of the last event that it contains, if the server has said it.
    mutating func fetched(_ number: Int, _ value: JSON, version: String) {
        guard number == fetchNumber, phase == .fetching else { return }
        fetchErrors = 0
        let unsettled = Array(kept.dropFirst(settled))
        if version.isEmpty || kept.contains(where: { $0.lastEventID.isEmpty }) {
            // What came before the request is contained. What came during it may be.
            if unsettled.contains(where: { $0.type == "patch" }), tryAgain() { return }
            return adopt(value, version, then: unsettled, .following)
        }
        if let place = kept.lastIndex(where: { $0.lastEventID == version }) {
            return adopt(value, version, then: Array(kept[(place + 1)...]), .following)
        }
        if version == base { return adopt(value, version, then: kept, .following) }
        if let last = Self.number(version), base.isEmpty || Self.number(base) != nil,
            kept.allSatisfy({ Self.number($0.lastEventID) != nil })
        {
            // One that is older than what has been seen comes from a cache, or from a server that lags behind.
            if let base = Self.number(base), base > last {
                attempts += 1
                return fetch(delay: Self.delay(attempts - 1))
            }
            return adopt(value, version, then: kept, .uncertain)
        }
        if kept.isEmpty, base.isEmpty { return adopt(value, version, then: [], .uncertain) }
        // Twice the same, though events have come before the second request: those are older.
        if version == candidate?.version, settled > 0 { return adopt(value, version, then: unsettled, .uncertain) }
        candidate = (value, version)
        if tryAgain() { return }
        // Shown, but still to be placed.
        adopt(value, version, then: unsettled, .uncertain)
    }

    /// The value has not come.
    ///
    /// - Parameter isTemporary: whether another try may succeed.
    mutating func fetchFailed(_ number: Int, _ error: any Error, isTemporary: Bool) {
        guard number == fetchNumber, phase == .fetching else { return }
        guard isTemporary else {
            phase = .waiting
            actions.append(.fail(error))
            return
        }
        fetchErrors += 1
        fetch(delay: Self.delay(fetchErrors))
    }

    private mutating func tryAgain() -> Bool {
        guard attempts < Self.maximumAttempts else { return false }
        attempts += 1
        fetch(delay: Self.delay(attempts - 1))
        return true
    }

    private mutating func adopt(_ value: JSON, _ version: String, then events: [ServerSentEvent], _ next: Phase) {
        set(value, version: version)
        (kept, keptLength, candidate, phase) = ([], 0, nil, next)
        if next == .following { attempts = 0 }
        // One that cannot be applied lets the others be kept.
        for event in events { handle(event) }
    }

    private mutating func set(_ value: JSON, version: String) {
        (self.value, self.version) = (value, version)
        changes.append((.value(value), 0))
    }

    /// Seconds before another fetch: none before the first, then half a second, and at most 30.
    private static func delay(_ count: Int) -> TimeInterval { count <= 0 ? 0 : min(30, 0.25 * Double(1 << min(count, 10))) }

    /// A version that is a number, as many are.
    private static func number(_ version: String) -> Int? {
        guard !version.isEmpty, version.utf8.count <= 18, version.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int(version)
    }
}
