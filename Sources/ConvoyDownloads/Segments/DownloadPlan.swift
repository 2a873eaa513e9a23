import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation

/// Decides which parts of a file are asked for, from where, and what the answers mean.
///
/// A value without I/O and clock. Its purpose is that bytes of two representations are never combined, unless a checksum
/// of the whole will tell, and that a connection that has nothing to do takes over work of a slow one.
package struct DownloadPlan: Sendable {
    /// The URLs, the one of the request first.
    package internal(set) var sources: [DownloadSource]
    /// The parts under way, by their numbers.
    package internal(set) var parts: [Int: DownloadPart] = [:]
    /// The bytes that have been written.
    package internal(set) var done = ByteRanges()
    /// The length of the file; nil as long as nobody knows.
    package internal(set) var total: Int64?
    /// What the bytes are bytes of; nil if nobody could add others later.
    package internal(set) var representation: Representation?
    /// How many parts may be under way at once.
    package let maximumParts: Int
    /// A part that is shorter than twice this is not divided, in bytes.
    package let minimumPart: Int64
    /// Whether a checksum of the whole is known, so that sources may be combined.
    package var isVerified: Bool
    /// The lengths that the file may have, if the user has said so.
    let lengths: ClosedRange<Int64>?
    /// What of the URLs is secret.
    let secrets: SecretClassifier
    var nextID = 0
    /// How many parts may be under way, since a server has refused another.
    var allowedParts: Int
    /// Whether the whole is asked for, because parts were no use.
    var asksForWhole = false
    /// Whether the whole, when it was asked for, has denied what is known of the file, so that what is there is in doubt.
    package internal(set) var isDenied = false
    /// How often in this try the file was begun from its start again.
    var restarts = 0
    /// How often in this try the whole has come in place of a part.
    var refusals = 0
    /// What is in the file until the first byte of what replaces it is written.
    struct Replaced: Sendable {
        let done: ByteRanges
        let total: Int64?
        let representation: Representation?
        let source: DownloadSource
        let index: Int
    }
    var replaced: Replaced?
    /// Whether the file was complete when the body of unknown length ended.
    var hasEnded = false

    package init(
        sources: [URL], maximumParts: Int = 1, minimumPart: Int64 = 1 << 20, isVerified: Bool = false,
        lengths: ClosedRange<Int64>? = nil, secrets: SecretClassifier = .standard
    ) {
        self.sources = sources.map { DownloadSource(url: $0) }
        self.maximumParts = max(1, maximumParts)
        self.minimumPart = max(1, minimumPart)
        self.isVerified = isVerified
        self.lengths = lengths
        self.secrets = secrets
        allowedParts = self.maximumParts
    }

    // MARK: What is known

    /// Whether all bytes are there.
    package var isComplete: Bool {
        if let total { return done.contains(0..<total) }
        return hasEnded
    }

    /// What an earlier download has left. At least one byte is fetched again, so that the server is asked.
    package mutating func resume(_ representation: Representation, _ written: ByteRanges) {
        guard lengths?.contains(representation.total) ?? true else { return }
        guard let source = sources.indices.first else { return }
        self.representation = representation
        total = representation.total
        done = written
        if written.contains(0..<representation.total), representation.total > 0 {
            done.remove(representation.total - 1..<representation.total)
        }
        sources[source].place = representation.place
        sources[source].validators = representation.validators
    }

    /// Adds URLs of the same file.
    package mutating func add(_ urls: [URL]) {
        for url in urls where sources.count < 256 && !sources.contains(where: { $0.url == url }) {
            sources.append(DownloadSource(url: url))
        }
    }

    // MARK: Tries

    /// Begins a try. Returns the first part to ask for; nil if there is nothing to fetch, or nobody to ask.
    package mutating func begin() -> PartRequest? {
        parts = [:]
        (allowedParts, restarts, refusals) = (maximumParts, 0, 0)
        for index in sources.indices {
            (sources[index].isDropped, sources[index].hasSent, sources[index].failures) = (false, false, 0)
        }
        return first()
    }

    /// The first part of a try, or of a further source in it.
    mutating func first() -> PartRequest? {
        guard !isComplete, let source = bestSource(excludingBusy: false) else { return nil }
        guard !asksForWhole, !done.isEmpty, let total, let gap = done.gaps(upTo: total).first,
            canContinue(from: source)
        else { return startOver(from: source) }
        return request(gap.lowerBound..<gap.upperBound, from: source)
    }

    /// Whether what is there can be continued with bytes from a source.
    private func canContinue(from source: Int) -> Bool {
        isVerified || sources[source].validators != nil && sources[source].place == representation?.place
    }

    private mutating func startOver(from source: Int) -> PartRequest {
        let part = DownloadPart(source: source, position: 0, end: nil, asksForRange: false)
        return ask(part, PartRequest(id: nextID, url: sources[source].url, range: nil, condition: nil))
    }

    private mutating func request(_ range: Range<Int64>, from source: Int) -> PartRequest {
        let part = DownloadPart(source: source, position: range.lowerBound, end: range.upperBound, asksForRange: true)
        let validators = sources[source].validators
        // To the end without a last position, as a server may know a longer file by now, which its answer tells then.
        let last = range.upperBound == total ? nil : range.upperBound - 1
        return ask(
            part,
            PartRequest(
                id: nextID, url: sources[source].url, range: (range.lowerBound, last),
                condition: validators?.condition))
    }

    private mutating func ask(_ part: DownloadPart, _ request: PartRequest) -> PartRequest {
        parts[nextID] = part
        nextID += 1
        return request
    }

    // MARK: Bytes

    /// What is to be done with a part after bytes of it were written.
    package enum Flow: Sendable {
        case goesOn
        /// It has brought all that it was to, and its response has no more.
        case ends
        /// It has brought all that it was to, and is to be stopped, as its response has more.
        case stop
    }

    /// So many bytes of a part are about to be written at its position. Where they reach its end, and its response goes on,
    /// it brings also what follows, as far as nothing else does yet: a server may refuse those that were asked to.
    package mutating func willWrite(_ count: Int64, for id: Int) {
        guard let part = parts[id], part.isReceiving, let end = part.end, let responseEnd = part.responseEnd,
            responseEnd > end, part.position + count >= end
        else { return }
        var limit = responseEnd
        if let known = done.ranges.first(where: { $0.upperBound > end }) { limit = min(limit, known.lowerBound) }
        for (other, next) in parts where other != id && next.isReceiving && next.remaining != 0 && next.position >= end {
            limit = min(limit, next.position)
        }
        guard limit > end else { return }
        parts[id]?.end = limit
        for (other, next) in parts where !next.isReceiving && (end..<limit).contains(next.position) && other != id {
            parts[other]?.end = next.position
        }
    }

    /// Bytes of a part have been written at its position.
    package mutating func didWrite(_ count: Int64, for id: Int, at now: UInt64) -> Flow {
        guard var part = parts[id] else { return .stop }
        if count > 0 { replaced = nil }
        done.insert(part.position..<part.position + count)
        part.position += count
        part.received += count
        if part.began == 0 { part.began = now }
        part.last = now
        parts[id] = part
        if count > 0 { (sources[part.source].failures, sources[part.source].hasSent) = (0, true) }
        guard part.remaining == 0 else { return .goesOn }
        return part.responseEnd == part.end ? .ends : .stop
    }

    /// Whether more bytes than its response announced have come for a part, so that nothing the response said can be
    /// trusted.
    package func exceeds(_ count: Int64, for id: Int) -> Bool {
        guard let part = parts[id], let end = part.responseEnd else { return false }
        return part.position + count > end
    }

    // MARK: More parts

    /// The next part to ask for; nil if there is nothing more to do at once. To be called until it returns nil.
    ///
    /// - Returns: the request, and the part that has lost all of its work to it and is to be stopped, if there is one.
    package mutating func more(at now: UInt64) -> (request: PartRequest, stops: Int?)? {
        guard let total, !asksForWhole, parts.count < allowedParts, !parts.isEmpty,
            parts.values.allSatisfy({ $0.isReceiving || $0.asksForRange }), parts.values.contains(where: \.isReceiving)
        else { return nil }
        var assigned = done
        // One that has lost work while it was writing may have gone beyond its end.
        for part in parts.values { assigned.insert(part.position..<max(part.position, part.end ?? total)) }
        guard let source = bestSource(excludingBusy: true), sources[source].sendsParts != false else { return nil }
        let free = Int64(allowedParts - parts.count)
        if let gap = assigned.gaps(upTo: total).first {
            let share = max(minimumPart, (gap.upperBound - gap.lowerBound) / free)
            let end = gap.upperBound - gap.lowerBound - share < minimumPart ? gap.upperBound : gap.lowerBound + share
            return (request(gap.lowerBound..<end, from: source), nil)
        }
        return takeOver(from: source, free, at: now)
    }

    /// Takes work from the part that would need the longest.
    ///
    /// - Parameter free: how many parts can begin now; more than one divide the work evenly.
    private mutating func takeOver(from source: Int, _ free: Int64, at now: UInt64) -> (request: PartRequest, stops: Int?)? {
        func need(_ part: DownloadPart) -> Double {
            let rate = isStalled(part, at: now) ? 1 : part.rate(at: now) ?? sources[part.source].rate ?? 1e6
            return Double(part.remaining ?? 0) / max(1, rate)
        }
        guard
            let (id, part) = parts.filter({ $0.value.isReceiving && sources[$0.value.source].sendsParts != false }).max(by: {
                need($0.value) < need($1.value)
            }),
            let remaining = part.remaining, let end = part.end, remaining > 0
        else { return nil }
        if isStalled(part, at: now) {
            // All of it. What is stopped is not missed.
            parts[id]?.end = part.position
            return (request(part.position..<end, from: source), id)
        }
        guard remaining >= 2 * minimumPart else { return nil }
        if free > 1, remaining >= (free + 1) * minimumPart {
            let share = remaining / (free + 1)
            parts[id]?.end = part.position + share
            return (request(part.position + share..<part.position + 2 * share, from: source), nil)
        }
        let own = part.rate(at: now) ?? 1
        let other = sources[source].rate ?? own
        let share = min(0.9, max(0.1, other / max(1, own + other)))
        let taken = min(max(Int64(Double(remaining) * share), minimumPart), remaining - minimumPart)
        parts[id]?.end = end - taken
        return (request(end - taken..<end, from: source), nil)
    }

    /// Whether a part has brought nothing for five seconds.
    private func isStalled(_ part: DownloadPart, at now: UInt64) -> Bool {
        part.isReceiving && part.last > 0 && now &- part.last > 5_000_000_000
    }

    /// The source to ask next: the fastest for each of its parts, and before it those that nobody has tried.
    func bestSource(excludingBusy: Bool) -> Int? {
        var busy: [Int: Int] = [:]
        for part in parts.values { busy[part.source, default: 0] += 1 }
        // Without a checksum only one source can be combined with what is there.
        let own = parts.values.first?.source
        func isCandidate(_ index: Int) -> Bool {
            sources[index].isUsable && (isVerified || !excludingBusy || index == own)
        }
        let best = sources.compactMap(\.rate).max() ?? 1
        func worth(_ index: Int) -> Double { (sources[index].rate ?? best) / Double(busy[index, default: 0] + 1) }
        var found: Int?
        for index in sources.indices where isCandidate(index) {
            if let other = found, !excludingBusy || worth(other) >= worth(index) { continue }
            found = index
        }
        return found
    }
}
