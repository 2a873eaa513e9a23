import ConvoySerialization
import Foundation

/// The state machine that derives the value of a subscription from its events. It does no I/O.
///
/// Events are kept while the value is being fetched. The version of the fetched value, from `Last-Event-ID` of the
/// response, is the `id` of the last event that it includes. A version that matches neither a kept event nor the event
/// before the kept events is compared as a number, if it is a number. Otherwise only another fetch shows whether the
/// version belongs to an older event, or to an event that has not arrived yet.
///
/// Without versions, it is unknown whether the value includes an event that arrived during the fetch. The value is then
/// fetched again, a few times.
struct SubscriptionState {
    enum Action {
        /// Fetch the value after the given delay in seconds. The previous fetch is obsolete.
        case fetch(number: Int, delay: TimeInterval)
        /// End the subscription.
        case fail(any Error)
    }

    private enum Phase {
        /// No value is available or being fetched.
        case waiting
        case fetching
        /// The value has a version whose position in the stream is not known yet.
        case uncertain
        /// The value is known, and each event changes it.
        case following
    }

    /// The maximum number of consecutive fetches caused by an unknown position of the version.
    private static let maximumAttempts = 5
    /// The maximum number of consecutive fetches caused by an event that could not be applied.
    private static let maximumFailures = 8
    /// The maximum size of events that are kept during a fetch, in bytes.
    private static let maximumKeptLength = 64 << 20

    /// Whether the value is fetched; otherwise the server sends it.
    var fetchesValue = true
    /// Whether the server continues a new connection after its `Last-Event-ID`.
    var resumesByEventID = true
    var maximumDepth = 512

    private(set) var value: JSON?
    /// The identifier of the last event that the value includes; empty if unknown.
    private(set) var version = ""

    private var phase = Phase.waiting
    private var isOpened = false
    private var changes: [(change: SubscriptionChange, cost: Int)] = []
    private var actions: [Action] = []
    /// The events since the fetch became necessary.
    private var kept: [ServerSentEvent] = []
    private var keptLength = 0
    /// The number of kept events that arrived before the request was sent.
    private var settled = 0
    /// The identifier of the event before the kept ones, if all events since have been kept.
    private var base = ""
    private var lastEventID = ""
    private var fetchNumber = 0
    private var attempts = 0
    private var failures = 0
    private var fetchErrors = 0
    /// A fetched value whose version may be that of an event that has not arrived yet.
    private var candidate: (value: JSON, version: String)?

    /// Returns the changes and actions since the last call. The cost of a patch is the length of its text, in bytes.
    mutating func takeOutcome() -> (changes: [(change: SubscriptionChange, cost: Int)], actions: [Action]) {
        defer {
            changes = []
            actions = []
        }
        return (changes, actions)
    }

    // MARK: Events

    /// Handles the opening of a connection.
    mutating func opened() {
        defer { isOpened = true }
        guard fetchesValue else { return }
        if isOpened, resumesByEventID, !lastEventID.isEmpty, phase != .uncertain { return }
        // Events between the connections are lost.
        kept = []
        keptLength = 0
        base = ""
        candidate = nil
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
                // Make a running fetch obsolete.
                fetchNumber += 1
                return adopt(candidate.value, candidate.version, then: [], .following)
            }
            keep(event)
        case .following: apply(event)
        case .uncertain:
            if event.lastEventID.isEmpty { return follow(event) }
            if event.lastEventID == version {
                phase = .following
                attempts = 0
            } else if let number = Self.number(event.lastEventID), let last = Self.number(version) {
                // An event that the value already includes is skipped.
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
        phase = .following
        attempts = 0
        apply(event)
    }

    /// Handles a `put`: the whole value, at its position in the stream.
    private mutating func put(_ event: ServerSentEvent) {
        do throws(JSONSyntaxError) {
            set(try JSON(parsing: Data(event.data.utf8), maximumDepth: maximumDepth), version: event.lastEventID)
        } catch {
            return recover(from: event, error)
        }
        kept = []
        keptLength = 0
        candidate = nil
        phase = .following
        attempts = 0
        failures = 0
        // A running fetch is older than this value.
        fetchNumber += 1
    }

    private mutating func apply(_ event: ServerSentEvent) {
        if event.type == "patch" {
            do {
                let patch = try JSONPatch(parsing: Data(event.data.utf8), maximumDepth: maximumDepth)
                // Move the value out, so that it is changed in place.
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

    /// Fetches the value again, because an event cannot be applied to it.
    private mutating func recover(from event: ServerSentEvent, _ error: any Error) {
        failures += 1
        guard fetchesValue, failures <= Self.maximumFailures else {
            phase = .waiting
            actions.append(.fail(SubscriptionError.unusableEvents(error)))
            return
        }
        kept = []
        keptLength = 0
        base = phase == .fetching ? "" : version
        candidate = nil
        keep(event)
        fetch(delay: Self.delay(failures - 1))
    }

    private mutating func keep(_ event: ServerSentEvent) {
        keptLength += event.data.utf8.count + 64
        if keptLength > Self.maximumKeptLength {
            kept = []
            keptLength = 0
            base = event.lastEventID
            candidate = nil
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

    /// Records that a fetch is about to be sent. Returns false if it is obsolete.
    mutating func willFetch(_ number: Int) -> Bool {
        guard number == fetchNumber, phase == .fetching else { return false }
        settled = kept.count
        return true
    }

    /// Handles a fetched value, with the identifier of the last event that it includes, if the server has sent it.
    mutating func fetched(_ number: Int, _ value: JSON, version: String) {
        guard number == fetchNumber, phase == .fetching else { return }
        fetchErrors = 0
        let unsettled = Array(kept.dropFirst(settled))
        if version.isEmpty || kept.contains(where: { $0.lastEventID.isEmpty }) {
            // The value includes the events before the request. It may include events that arrived during the request.
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
            // A value that is older than events already seen comes from a cache, or from a lagging replica.
            if let base = Self.number(base), base > last {
                attempts += 1
                return fetch(delay: Self.delay(attempts - 1))
            }
            return adopt(value, version, then: kept, .uncertain)
        }
        if kept.isEmpty, base.isEmpty { return adopt(value, version, then: [], .uncertain) }
        // The same version was received twice, although events arrived before the second request, so those are older.
        if version == candidate?.version, settled > 0 { return adopt(value, version, then: unsettled, .uncertain) }
        candidate = (value, version)
        if tryAgain() { return }
        // The value is usable, but its position is still unknown.
        adopt(value, version, then: unsettled, .uncertain)
    }

    /// Handles a failed fetch.
    ///
    /// - Parameter isTemporary: Whether another fetch may succeed.
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
        kept = []
        keptLength = 0
        candidate = nil
        phase = next
        if next == .following { attempts = 0 }
        // If an event cannot be applied, the later ones are kept.
        for event in events { handle(event) }
    }

    private mutating func set(_ value: JSON, version: String) {
        self.value = value
        self.version = version
        changes.append((.value(value), 0))
    }

    /// Returns the delay before another fetch in seconds: 0 before the first, then half a second, growing to 30.
    private static func delay(_ count: Int) -> TimeInterval { count <= 0 ? 0 : min(30, 0.25 * Double(1 << min(count, 10))) }

    /// Returns the version as a number; nil if it is not a number.
    private static func number(_ version: String) -> Int? {
        guard !version.isEmpty, version.utf8.count <= 18, version.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int(version)
    }
}
