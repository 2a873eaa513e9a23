import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation

/// Decides which parts of a file are asked for, from where, and what the answers mean.
///
/// A value without I/O and clock, and the only place where it is known which bytes are there and who brings the others. Its
/// purpose is that bytes of two representations are never combined, unless a checksum of the whole will tell, and that a
/// connection that has nothing to do takes over work of a slow one.
///
/// Each byte that lacks has one owner at most, the part that is to bring it. Work is shared in blocks of fixed places, and
/// what is being written never changes its owner. A part claims what it writes before it does, and then may claim blocks
/// behind its own that no other part has an answer for. When a part has ended, what it owned and has not brought lacks
/// again; so do bytes that are proven wrong (`takeBack(_:)`).
package struct DownloadPlan: Sendable {
    /// What is known of the file, and of the bytes that are there.
    package struct Contents: Sendable {
        /// The bytes that have been written.
        package internal(set) var done = ByteRanges()
        /// The length of the file; nil while it is unknown.
        package internal(set) var total: Int64?
        /// What the bytes are bytes of; nil if no others could be added later.
        package internal(set) var representation: Representation?
        /// Which of the bytes each source has sent in this process.
        package internal(set) var sent: [Int: ByteRanges] = [:]
        /// The bytes of the pieces that were found right, or are being checked.
        package internal(set) var checked = ByteRanges()
        /// Whether a body of unknown length has ended, so that all is there.
        var hasEnded = false
    }

    /// The URLs, the one of the request first.
    package internal(set) var sources: [DownloadSource]
    /// The parts under way, by their numbers.
    package internal(set) var parts: [Int: DownloadPart] = [:]
    package internal(set) var contents = Contents()
    /// How many parts may be under way at once.
    package let maximumParts: Int
    /// A part that is shorter than twice this is not divided, in bytes.
    package let minimumPart: Int64
    /// The length of a block, in bytes.
    private let blockLength: Int64
    /// Whether a checksum of the whole is known, so that sources may be combined.
    package var isVerified: Bool
    /// The lengths that the file may have, if the user has said so.
    let lengths: ClosedRange<Int64>?
    /// What of the URLs is secret.
    let secrets: SecretClassifier
    private var nextID = 0
    /// So that no sum of positions overflows.
    private static let (longestPart, longestFile): (Int64, Int64) = (1 << 50, 1 << 61)
    /// How many parts may be under way, since a server has refused another.
    var allowedParts: Int
    /// Whether the whole is asked for, because parts were no use.
    var asksForWhole = false
    /// Whether the whole, when it was asked for, has denied what is known of the file, so that what is there is in doubt.
    package internal(set) var isDenied = false
    /// Whether all parts are being stopped, because the file is another one.
    package internal(set) var isRestarting = false
    /// How often in this try the file was begun from its start again.
    package internal(set) var restarts = 0
    /// How often in this try the whole has come in place of a part.
    var refusals = 0
    /// How often the whole file was wrong.
    var wrongFiles = 0

    /// What is in the file until the first byte of what replaces it is written.
    struct Replaced: Sendable {
        let contents: Contents
        let source: DownloadSource
        let index: Int
    }
    var replaced: Replaced?

    package init(
        sources: [URL], maximumParts: Int = 1, minimumPart: Int64 = 1 << 20, isVerified: Bool = false,
        lengths: ClosedRange<Int64>? = nil, secrets: SecretClassifier = .standard
    ) {
        self.sources = sources.map { DownloadSource(url: $0) }
        self.maximumParts = max(1, maximumParts)
        self.minimumPart = min(max(1, minimumPart), Self.longestPart)
        blockLength = max(1, self.minimumPart / 16)
        self.isVerified = isVerified
        self.lengths = lengths
        self.secrets = secrets
        allowedParts = self.maximumParts
    }

    // MARK: What is known

    package var done: ByteRanges { contents.done }
    package var total: Int64? { contents.total }
    package var representation: Representation? { contents.representation }

    /// Whether all bytes are there.
    package var isComplete: Bool {
        if let total { return done.contains(0..<total) }
        return contents.hasEnded
    }

    /// Whether what is in the file is to be replaced, and no byte of what replaces it has come yet.
    package var isReplacing: Bool { replaced != nil }

    /// What an earlier download has left. At least one byte is fetched again, so that the server is asked.
    package mutating func resume(_ representation: Representation, _ written: ByteRanges) {
        guard lengths?.contains(representation.total) ?? true else { return }
        guard let source = sources.indices.first else { return }
        contents = Contents(done: written, total: representation.total, representation: representation)
        if written.contains(0..<representation.total), representation.total > 0 {
            contents.done.remove(representation.total - 1..<representation.total)
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

    /// Begins a try. Returns the first part to ask for; nil if there is nothing to fetch, or no source to ask.
    package mutating func begin() -> PartRequest? {
        (parts, isRestarting) = ([:], false)
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

    /// What becomes of bytes that have come for a part.
    package enum Claim: Equatable, Sendable {
        /// The first of them, or all, are written to these positions. `didWrite(for:at:)` and `endClaim(of:)` follow.
        case write(Range<Int64>)
        /// The part is being stopped, and needs none of them.
        case drop
        /// They are more than the response announced, so that nothing that it said can be trusted. The part is to be stopped.
        case exceeds
    }

    /// So many bytes have come for a part. Where they reach the end of what it owns, and its response goes on, it takes the
    /// blocks that follow, as far as no other part has an answer for them: a server may refuse those that were asked to.
    package mutating func claim(_ count: Int64, for id: Int) -> Claim {
        guard let part = parts[id], part.ending == nil else { return .drop }
        if let end = part.responseEnd, part.position + count > end {
            parts[id]?.ending = .changed
            return .exceeds
        }
        if let end = part.end, part.position + count >= end { extend(id, part, from: end) }
        let length = min(count, parts[id]?.remaining ?? .max)
        parts[id]?.writing = length
        return .write(part.position..<part.position + length)
    }

    private mutating func extend(_ id: Int, _ part: DownloadPart, from end: Int64) {
        guard part.isReceiving, var limit = part.responseEnd, limit > end else { return }
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

    /// What is to be done with a part after bytes of it were written.
    package enum Flow: Sendable {
        case goesOn
        /// It has brought all that it was to, and its response has no more.
        case ends
        /// It has brought all that it was to, and is to be stopped, as its response has more.
        case stop
    }

    /// The bytes that a part has claimed were written.
    package mutating func didWrite(for id: Int, at now: UInt64) -> Flow {
        guard var part = parts[id] else { return .stop }
        let count = part.writing ?? 0
        let range = part.position..<part.position + count
        contents.done.insert(range)
        (part.position, part.received, part.last) = (range.upperBound, part.received + count, now)
        part.writing = 0
        if part.began == 0 { part.began = now }
        if count > 0 {
            replaced = nil
            contents.sent[part.source, default: ByteRanges()].insert(range)
            (sources[part.source].failures, sources[part.source].hasSent) = (0, true)
        }
        let flow: Flow = part.remaining != 0 ? .goesOn : part.responseEnd == part.end ? .ends : .stop
        if flow == .stop, part.ending == nil { part.ending = .complete }
        parts[id] = part
        return flow
    }

    /// All that follows from a claim is done, or its bytes could not be written.
    package mutating func endClaim(of id: Int) { parts[id]?.writing = nil }

    // MARK: More parts

    /// The next part to ask for; nil if there is nothing more to do at once. To be called until it returns nil.
    ///
    /// - Returns: the request, and the part that has lost all of its work to it and is to be stopped, if there is one.
    package mutating func more(at now: UInt64) -> (request: PartRequest, stops: Int?)? {
        guard let total, total <= Self.longestFile, !asksForWhole, !isRestarting, parts.count < allowedParts, !parts.isEmpty,
            parts.values.allSatisfy({ $0.isReceiving || $0.asksForRange }), parts.values.contains(where: \.isReceiving)
        else { return nil }
        var owned = done
        for part in parts.values { owned.insert(part.position..<max(part.position, part.end ?? total)) }
        guard let source = bestSource(excludingBusy: true), sources[source].sendsParts != false else { return nil }
        let free = Int64(allowedParts - parts.count)
        if let gap = owned.gaps(upTo: total).first {
            let length = gap.upperBound - gap.lowerBound
            let share = max(minimumPart, length / free)
            let end = length - share < minimumPart ? gap.upperBound : block(atOrAfter: gap.lowerBound + share)
            return (request(gap.lowerBound..<end, from: source), nil)
        }
        return takeOver(from: source, free, at: now)
    }

    /// The first position of a block that is not before a position.
    private func block(atOrAfter position: Int64) -> Int64 {
        let rest = position % blockLength
        return rest == 0 ? position : position - rest + blockLength
    }

    /// Takes blocks from the part that would need the longest.
    ///
    /// - Parameter free: how many parts can begin now; more than one divide the work evenly.
    private mutating func takeOver(from source: Int, _ free: Int64, at now: UInt64) -> (request: PartRequest, stops: Int?)? {
        func need(_ part: DownloadPart) -> Double {
            let rate = part.isStalled(at: now) ? 1 : part.rate(at: now) ?? sources[part.source].rate ?? 1e6
            return Double(part.remaining ?? 0) / max(1, rate)
        }
        let candidates = parts.filter {
            $0.value.isReceiving && $0.value.ending == nil && sources[$0.value.source].sendsParts != false
        }
        guard let (id, part) = candidates.max(by: { need($0.value) < need($1.value) }), let end = part.end,
            case let first = part.position + (part.writing ?? 0), first < end
        else { return nil }
        if part.isStalled(at: now) {
            // All of it, also the rest of the block that it has begun. What is stopped is not missed.
            parts[id]?.end = first
            parts[id]?.ending = .complete
            return (request(first..<end, from: source), id)
        }
        let remaining = end - first
        guard remaining >= 2 * minimumPart else { return nil }
        if free > 1, remaining >= (free + 1) * minimumPart {
            let share = remaining / (free + 1)
            let start = block(atOrAfter: first + share)
            parts[id]?.end = start
            return (request(start..<min(end, block(atOrAfter: start + share)), from: source), nil)
        }
        let own = part.rate(at: now) ?? 1
        let other = sources[source].rate ?? own
        let share = min(0.9, max(0.1, other / max(1, own + other)))
        let taken = min(max(Int64(Double(remaining) * share), minimumPart), remaining - minimumPart)
        let start = block(atOrAfter: end - taken)
        guard start < end else { return nil }
        parts[id]?.end = start
        return (request(start..<end, from: source), nil)
    }

    /// The source to ask next: the fastest for each of its parts, and before it those that have not been tried.
    private func bestSource(excludingBusy: Bool) -> Int? {
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
