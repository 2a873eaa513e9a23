import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation

/// The plan of a download, which decides which parts of a file to request from which sources, and evaluates the
/// responses.
///
/// The plan is a value without I/O or a clock, and the only type that tracks which bytes exist and which part fetches
/// the missing ones. It never combines bytes of two representations, unless a checksum of the complete file will
/// confirm the result. An idle connection takes over work from a slow one.
///
/// Each missing byte belongs to at most one part. Work is divided in blocks at fixed positions, and bytes being written
/// are never reassigned. A part claims bytes before it writes them, and may then claim the following blocks unless
/// another part has a response for them. When a part ends, the bytes that it has not fetched are missing again, and so
/// are bytes found to be wrong (`takeBack(_:)`).
package struct DownloadPlan: Sendable {
    /// What is known about the file, and which bytes have been stored.
    package struct Contents: Sendable {
        /// The bytes that have been written.
        package internal(set) var done = ByteRanges()
        /// The length of the file; nil while it is unknown.
        package internal(set) var total: Int64?
        /// The representation of the bytes; nil if no bytes can be added later.
        package internal(set) var representation: Representation?
        /// The bytes sent by each source in this process.
        package internal(set) var sent: [Int: ByteRanges] = [:]
        /// The bytes of pieces that are correct or being checked.
        package internal(set) var checked = ByteRanges()
        /// Whether a body of unknown length has ended, so that the file is complete.
        var hasEnded = false
    }

    /// The URLs, starting with that of the request.
    package internal(set) var sources: [DownloadSource]
    /// The running parts, by number.
    package internal(set) var parts: [Int: DownloadPart] = [:]
    package internal(set) var contents = Contents()
    /// The maximum number of concurrent parts.
    package let maximumParts: Int
    /// The minimum length of a part, in bytes. A part is divided only if it is at least twice as long.
    package let minimumPart: Int64
    /// The length of a block, in bytes.
    private let blockLength: Int64
    /// Whether a checksum of the complete file is known, so that sources may be combined.
    package var isVerified: Bool
    /// The valid lengths of the file, if specified by the user.
    let lengths: ClosedRange<Int64>?
    /// The classifier for the secret parts of URLs.
    let secrets: SecretClassifier
    private var nextID = 0
    /// Limits that keep sums of positions from overflowing.
    private static let (longestPart, longestFile): (Int64, Int64) = (1 << 50, 1 << 61)
    /// The number of parts that may run concurrently, reduced after a server has refused one.
    var allowedParts: Int
    /// Whether to request the complete file, because ranges did not work.
    var asksForWhole = false
    /// Whether a response with the complete file has contradicted what is known, so that the existing bytes may be
    /// wrong.
    package internal(set) var isDenied = false
    /// Whether all parts are being stopped because the server's file differs from the stored bytes.
    package internal(set) var isRestarting = false
    /// The number of restarts in this attempt.
    package internal(set) var restarts = 0
    /// The number of complete responses to requests for ranges in this attempt.
    var refusals = 0
    /// The number of times that the complete file was wrong.
    var wrongFiles = 0

    /// The contents of the file until the first byte of the replacement is written.
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

    // MARK: State

    package var done: ByteRanges { contents.done }
    package var total: Int64? { contents.total }
    package var representation: Representation? { contents.representation }

    /// Whether all bytes have been stored.
    package var isComplete: Bool {
        if let total { return done.contains(0..<total) }
        return contents.hasEnded
    }

    /// Whether the contents will be replaced, but no byte of the replacement has arrived yet.
    package var isReplacing: Bool { replaced != nil }

    /// Restores the bytes of an earlier download. At least one byte is fetched again, so that the server is contacted.
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

    // MARK: Attempts

    /// Begins an attempt. Returns the first part to request; nil if there is nothing to fetch, or no source is
    /// available.
    package mutating func begin() -> PartRequest? {
        parts = [:]
        isRestarting = false
        allowedParts = maximumParts
        restarts = 0
        refusals = 0
        for index in sources.indices {
            (sources[index].isDropped, sources[index].hasSent, sources[index].failures) = (false, false, 0)
        }
        return first()
    }

    /// Returns the first part to request in an attempt, or the first part after switching to a different source.
    mutating func first() -> PartRequest? {
        guard !isComplete, let source = bestSource(excludingBusy: false) else { return nil }
        guard !asksForWhole, !done.isEmpty, let total, let gap = done.gaps(upTo: total).first,
            canContinue(from: source)
        else { return startOver(from: source) }
        return request(gap.lowerBound..<gap.upperBound, from: source)
    }

    /// Returns whether bytes from a source can be added to the existing ones.
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
        // Omit the last position for a range to the end: the file may be longer by now, which the response then shows.
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

    /// The action to take for bytes received for a part.
    package enum ByteDisposition: Equatable, Sendable {
        /// Write the bytes, or the first of them, at these positions. Then call `didWrite(for:at:)` and
        /// `endClaim(of:)`.
        case write(Range<Int64>)
        /// Drop the bytes, because the part is being stopped.
        case drop
        /// Stop the part: its response contains more bytes than announced, so nothing in it can be trusted.
        case exceeds
    }

    /// Claims bytes received for a part. If they reach the end of its range and its response continues, the part takes
    /// over the following blocks unless another part has a response for them, because a server may refuse the requests
    /// for those blocks.
    package mutating func claim(_ count: Int64, for id: Int) -> ByteDisposition {
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

    /// The action to take for a part after its bytes were written.
    package enum Flow: Sendable {
        case goesOn
        /// The part has fetched its range, and its response has ended.
        case ends
        /// The part has fetched its range, and must be stopped because its response continues.
        case stop
    }

    /// Records that the claimed bytes were written.
    package mutating func didWrite(for id: Int, at now: UInt64) -> Flow {
        guard var part = parts[id] else { return .stop }
        let count = part.writing ?? 0
        let range = part.position..<part.position + count
        contents.done.insert(range)
        part.position = range.upperBound
        part.received = part.received + count
        part.last = now
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

    /// Ends a claim, after its bytes were written or could not be written.
    package mutating func endClaim(of id: Int) { parts[id]?.writing = nil }

    // MARK: More parts

    /// Returns the next part to request; nil if none is useful now. Call this method until it returns nil.
    ///
    /// - Returns: The request, and the part to stop because the new one has taken over all of its work, if any.
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

    /// Returns the first block boundary at or after a position.
    private func block(atOrAfter position: Int64) -> Int64 {
        let rest = position % blockLength
        return rest == 0 ? position : position - rest + blockLength
    }

    /// Takes over blocks from the part that would take the longest to complete.
    ///
    /// - Parameter free: The number of parts that can begin now, among which the work is divided evenly.
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
            // Take over everything, including the rest of the current block: the stopped part loses nothing.
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

    /// Returns the next source to use: an untried source, otherwise the source with the highest rate per part.
    private func bestSource(excludingBusy: Bool) -> Int? {
        var busy: [Int: Int] = [:]
        for part in parts.values { busy[part.source, default: 0] += 1 }
        // Without a checksum, only one source can be combined with the existing bytes.
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
