import Foundation

/// Handling of completed parts and wrong bytes.
extension DownloadPlan {
    /// The maximum number of restarts in an attempt.
    static let mostRestarts = 3
    /// The number of consecutive refusals, without other parts running, after which a source that has sent bytes is
    /// dropped.
    private static let mostRefusals = 4

    /// The outcome of a part.
    package enum End: Sendable {
        /// The response is complete, or the part was stopped after it had fetched its range.
        case complete
        /// The connection failed.
        case failed
        /// The server has responded with an error, or with something other than the file.
        case refused
        /// The response was useless for the part.
        case useless
        /// The bytes of this part, or of other parts, belong to a different file from the rest.
        case changed
        /// The source has a different file.
        case disagrees
    }

    /// The next step after a part has ended.
    package enum Next: Equatable, Sendable {
        /// Other parts are running, and more may be requested with `more(at:)`.
        case more
        /// All bytes have arrived.
        case finished
        /// The given part must be requested, alone.
        case ask(PartRequest)
        /// All parts must be stopped. The completion of the last one determines the next step.
        case stopAll
        /// The attempt has failed with the error of the part that has ended.
        case failed
    }

    /// Removes a part that ended in an attempt that is being stopped.
    package mutating func drop(_ id: Int, at now: UInt64) { _ = remove(id, at: now) }

    /// Removes a part. The bytes that it has not fetched become missing again.
    private mutating func remove(_ id: Int, isGood: Bool = false, at now: UInt64) -> DownloadPart? {
        guard let part = parts.removeValue(forKey: id) else { return nil }
        if let rate = part.rate(at: now) {
            sources[part.source].rate = sources[part.source].rate.map { ($0 + rate) / 2 } ?? rate
        }
        // No byte of the replacement has arrived, and no other part will fetch it, so restore the old contents.
        if !isGood, parts.isEmpty, let old = replaced {
            contents = old.contents
            sources[old.index].place = old.source.place
            sources[old.index].validators = old.source.validators
            replaced = nil
        }
        return part
    }

    /// Handles the completion of a part. If the plan has stopped the part, the plan's reason takes precedence over
    /// `outcome`.
    package mutating func didEnd(_ id: Int, _ outcome: End, at now: UInt64) -> Next {
        guard let part = parts[id] else { return parts.isEmpty ? .failed : .more }
        var end = part.ending ?? outcome
        // A response with fewer bytes than announced counts as a failed connection.
        if end == .complete, let remaining = part.remaining, remaining > 0, part.responseEnd == part.end { end = .failed }
        _ = remove(id, isGood: end == .complete && !isRestarting, at: now)
        if isRestarting { return parts.isEmpty ? restart() : .stopAll }
        if part.asksForRange, !part.isReceiving, part.remaining == 0 {
            // Another part has fetched the bytes of this part.
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
                    contents.hasEnded = true
                    contents.total = part.position
                }
            }
        case .failed:
            isTemporary = true
            note(failureOf: part)
        case .useless:
            // The parts for which this part was stopped may have ended in the meantime. If no part is left, the source
            // may be used again.
            let isAlone = parts.isEmpty && sources[part.source].failures < 2
            note(failureOf: part)
            if isAlone { sources[part.source].isDropped = false }
            if isAlone, !isComplete { return next() }
        case .refused where sources[part.source].hasSent:
            // The source does not accept an additional connection: request the range again, with fewer parts.
            allowFewer()
            if parts.isEmpty, !isComplete {
                sources[part.source].failures += 1
                if sources[part.source].failures < Self.mostRefusals { return next() }
                sources[part.source].isDropped = true
            }
        case .refused: sources[part.source].isDropped = true
        case .disagrees: sources[part.source].isBad = true
        case .changed:
            asksForWhole = true
            isRestarting = true
            return parts.isEmpty ? restart() : .stopAll
        }
        if isComplete { return .finished }
        if !parts.isEmpty { return .more }
        let hasUsable = sources.contains(where: \.isUsable)
        if end == .complete || isTemporary && part.received > 0 && sources.filter(\.isUsable).count > 1 { return next() }
        if isTemporary, !hasUsable { return .failed }
        // This source cannot continue. Use a different source, if available.
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

    /// Requests the complete file after all parts have been stopped because the file differs.
    private mutating func restart() -> Next {
        isRestarting = false
        restarts += 1
        // Concurrent ranges may have caused the restart.
        allowedParts = 1
        guard restarts <= Self.mostRestarts else { return .failed }
        return next()
    }

    // MARK: Wrong bytes

    /// Marks the bytes of a range, or of the complete file, as wrong, so that they are missing again. A source that has
    /// sent all of them is not used again. If several sources, or an earlier download, have contributed, it is unknown
    /// whose bytes were wrong, and parts are requested one by one from now on. Call `goOn()` when no part is running.
    ///
    /// - Parameter wrong: The range; nil for the complete file, which is then requested without ranges.
    /// - Returns: The parts to stop: those of the source that is not used again.
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
            contents = Contents()
            replaced = nil
            asksForWhole = true
            allowedParts = 1
            wrongFiles += 1
        }
        guard let culprit else { return [] }
        sources[culprit].isBad = true
        let stopped = parts.filter { $0.value.source == culprit && $0.value.ending == nil }.map(\.key)
        for id in stopped { parts[id]?.ending = .disagrees }
        return stopped
    }

    /// Returns the pieces that touch a range, are complete, and have not been checked. They count as checked until they
    /// are taken back.
    package mutating func piecesToCheck(_ pieces: PieceChecksums, touching range: Range<Int64>) -> [Int] {
        guard let total, !range.isEmpty else { return [] }
        return (Int(range.lowerBound / pieces.length)...Int((range.upperBound - 1) / pieces.length)).filter { index in
            guard let piece = pieces.range(of: index, total: total), done.contains(piece), !contents.checked.contains(piece)
            else { return false }
            contents.checked.insert(piece)
            return true
        }
    }

    /// Continues after bytes were taken back, when no part is running.
    package mutating func goOn() -> Next {
        if isComplete { return .finished }
        return wrongFiles > sources.count + 1 ? .failed : next()
    }

    /// Discards the state of the file, but not that of the sources.
    package mutating func forgetFile() {
        parts = [:]
        contents = Contents()
        replaced = nil
        isDenied = false
    }
}
