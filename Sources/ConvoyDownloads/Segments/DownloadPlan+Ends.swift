import Foundation

/// How parts end, what follows, and how bytes come to lack again.
extension DownloadPlan {
    /// How often a try begins the file from its start, before it fails.
    static let mostRestarts = 3
    /// How often in a row a source that has sent bytes refuses to send others, alone, before it is given up.
    private static let mostRefusals = 4

    /// How a part has ended.
    package enum End: Sendable {
        /// Its response is complete, or it has brought all that it was to and was stopped.
        case complete
        /// The connection failed.
        case failed
        /// The server has answered with an error, or with something that is not the file.
        case refused
        /// Its answer was no use.
        case useless
        /// What it has brought, or what others have, is of another file than the rest.
        case changed
        /// Its source has another file.
        case disagrees
    }

    /// What follows the end of a part.
    package enum Next: Equatable, Sendable {
        /// Parts may be asked for by `more(at:)`; others are under way.
        case more
        /// All is there.
        case finished
        /// This part is asked for, alone.
        case ask(PartRequest)
        /// All parts are to be stopped. The end of the last one says how the try goes on.
        case stopAll
        /// The try has failed, with the error of the part that has ended.
        case failed
    }

    /// A part has ended in a try that is being stopped, so that nothing follows.
    package mutating func drop(_ id: Int, at now: UInt64) { _ = remove(id, at: now) }

    /// What the part owned and has not brought lacks again.
    private mutating func remove(_ id: Int, isGood: Bool = false, at now: UInt64) -> DownloadPart? {
        guard let part = parts.removeValue(forKey: id) else { return nil }
        if let rate = part.rate(at: now) {
            sources[part.source].rate = sources[part.source].rate.map { ($0 + rate) / 2 } ?? rate
        }
        // Nothing has come of what was to replace what is in the file, and no other part will bring it.
        if !isGood, parts.isEmpty, let old = replaced {
            contents = old.contents
            sources[old.index].place = old.source.place
            sources[old.index].validators = old.source.validators
            replaced = nil
        }
        return part
    }

    /// A part has ended: so, unless it was being stopped for a reason that the plan knows.
    package mutating func didEnd(_ id: Int, _ outcome: End, at now: UInt64) -> Next {
        guard let part = parts[id] else { return parts.isEmpty ? .failed : .more }
        var end = part.ending ?? outcome
        // Fewer bytes have come than the response has announced.
        if end == .complete, let remaining = part.remaining, remaining > 0, part.responseEnd == part.end { end = .failed }
        _ = remove(id, isGood: end == .complete && !isRestarting, at: now)
        if isRestarting { return parts.isEmpty ? restart() : .stopAll }
        if part.asksForRange, !part.isReceiving, part.remaining == 0 {
            // Another has brought its bytes.
            if end != .complete { allowFewer() }
            if isComplete { return .finished }
            return parts.isEmpty ? next() : .more
        }
        var isTemporary = false
        switch end {
        case .complete:
            if part.isReceiving, total == nil, part.end == nil {
                if lengths?.contains(part.position) == false {
                    sources[part.source].isBad = true
                } else {
                    (contents.hasEnded, contents.total) = (true, part.position)
                }
            }
        case .failed:
            isTemporary = true
            note(failureOf: part)
        case .useless:
            // The others, for whose sake it was left out, may have ended meanwhile. Alone it may be asked again.
            let isAlone = parts.isEmpty && sources[part.source].failures < 2
            note(failureOf: part)
            if isAlone { sources[part.source].isDropped = false }
            if isAlone, !isComplete { return next() }
        case .refused where sources[part.source].hasSent:
            // It does not give another connection. What it was asked for is asked for again, over fewer.
            allowFewer()
            if parts.isEmpty, !isComplete {
                sources[part.source].failures += 1
                if sources[part.source].failures < Self.mostRefusals { return next() }
                sources[part.source].isDropped = true
            }
        case .refused: sources[part.source].isDropped = true
        case .disagrees: sources[part.source].isBad = true
        case .changed:
            (asksForWhole, isRestarting) = (true, true)
            return parts.isEmpty ? restart() : .stopAll
        }
        if isComplete { return .finished }
        if !parts.isEmpty { return .more }
        let hasUsable = sources.contains(where: \.isUsable)
        if end == .complete || isTemporary && part.received > 0 && sources.filter(\.isUsable).count > 1 { return next() }
        if isTemporary, !hasUsable { return .failed }
        // It cannot go on. Another does, if there is one.
        sources[part.source].isDropped = true
        return next()
    }

    private mutating func allowFewer() { allowedParts = max(1, min(allowedParts, parts.count)) }

    private mutating func note(failureOf part: DownloadPart) {
        sources[part.source].failures += 1
        if parts.isEmpty || sources[part.source].failures >= 3 { sources[part.source].isDropped = true }
        allowFewer()
    }

    private mutating func next() -> Next { first().map { .ask($0) } ?? .failed }

    /// All parts have been stopped because the file is another one: the whole is asked for.
    private mutating func restart() -> Next {
        isRestarting = false
        restarts += 1
        // What has led to this may be the ranges that were asked for beside each other.
        allowedParts = 1
        guard restarts <= Self.mostRestarts else { return .failed }
        return next()
    }

    // MARK: Wrong bytes

    /// The bytes of a range, or of the whole file, are proven wrong: they lack again. A source that has sent all of them is
    /// not asked again. If several have sent some, or an earlier download has left some, it is not known whose bytes were
    /// wrong, and from now on one source is asked at a time. `goOn()` follows when no part is under way.
    ///
    /// - Parameter wrong: nil for the whole file, which is asked for without ranges then.
    /// - Returns: the parts that are to be stopped: those of the source that is not asked again.
    package mutating func takeBack(_ wrong: Range<Int64>?) -> [Int] {
        let range = wrong ?? 0..<(total ?? 0)
        let senders = contents.sent.filter { !$0.value.intersection(ByteRanges([range])).isEmpty }
        let culprit = senders.count == 1 ? senders.first { $0.value.contains(range) }?.key : nil
        if let wrong {
            contents.done.remove(wrong)
            contents.checked.remove(wrong)
            for source in contents.sent.keys { contents.sent[source]?.remove(wrong) }
            if culprit == nil { allowedParts = 1 }
        } else {
            (contents, replaced, asksForWhole, allowedParts) = (Contents(), nil, true, 1)
            wrongFiles += 1
        }
        guard let culprit else { return [] }
        sources[culprit].isBad = true
        let stopped = parts.filter { $0.value.source == culprit && $0.value.ending == nil }.map(\.key)
        for id in stopped { parts[id]?.ending = .disagrees }
        return stopped
    }

    /// The pieces that touch a range, have become whole, and were not checked yet. They count as checked from now on, until
    /// they are taken back.
    package mutating func piecesToCheck(_ pieces: PieceChecksums, touching range: Range<Int64>) -> [Int] {
        guard let total, !range.isEmpty else { return [] }
        return (Int(range.lowerBound / pieces.length)...Int((range.upperBound - 1) / pieces.length)).filter { index in
            guard let piece = pieces.range(of: index, total: total), done.contains(piece), !contents.checked.contains(piece)
            else { return false }
            contents.checked.insert(piece)
            return true
        }
    }

    /// No part is under way, and what was taken back lacks.
    package mutating func goOn() -> Next {
        if isComplete { return .finished }
        return wrongFiles > sources.count + 1 ? .failed : next()
    }

    /// The file is gone. What is known of the sources stays.
    package mutating func forgetFile() { (parts, contents, replaced, isDenied) = ([:], Contents(), nil, false) }
}
