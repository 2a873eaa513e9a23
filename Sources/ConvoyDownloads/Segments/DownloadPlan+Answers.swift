import ConvoyOperations
import ConvoyTransport
import Foundation

/// What the answers to a plan's requests mean (RFC 9110, sections 13.1.5, 14 and 15.3.7).
extension DownloadPlan {
    /// What the head of an answer means.
    package enum Verdict: Equatable, Sendable {
        /// Bytes of what is there already follow.
        case goesOn
        /// The whole file follows from its first byte.
        case startsOver
        /// The answer is no use for this part, which is to be stopped.
        case useless
        /// The file is another one than what is there: all parts are to be stopped, and the whole is asked for.
        case changed
        /// The source has another file than the others have, or than was expected: it is not asked again.
        case disagrees
        /// The answer is not about the file, such as a server's error.
        case unrelated
    }

    /// How often a try begins the file from its start, before it fails.
    private static let mostRestarts = 3
    /// How often in a row a source that has sent bytes refuses to send others, alone, before it is given up.
    private static let mostRefusals = 4

    package mutating func evaluate(_ head: ResponseHead, for id: Int) -> Verdict {
        guard let part = parts[id] else { return .useless }
        guard part.asksForRange else {
            switch head.statusCode {
            case 206: return .useless
            case 200..<300: return evaluateWhole(head, part, id)
            default: return .unrelated
            }
        }
        // Another has brought its bytes before its answer came.
        guard part.remaining != 0 else { return .useless }
        let known = known(of: part.source)
        // Where a checksum is known, it tells whether the bytes of another place are right.
        let isSamePlace = isVerified || sources[part.source].place.map { $0 == ResourcePlace(head.url) } ?? true
        let answer = known.evaluate(head, from: part.position, upTo: part.end, isSamePlace: isSamePlace)
        switch answer {
        case .part(let last, let whole): return evaluatePart(head, part, id, last, whole)
        case .whole: return evaluateRefusal(head, part, id)
        case .complete, .useless, .differs:
            // What it sends in place of a part is no file either. The others go on with what they have.
            let isNoRange = head.statusCode != 206 || answer == .useless && part.source == mainSource
            if (200..<300).contains(head.statusCode), isNoRange,
                parts.contains(where: { $0.key != id && $0.value.isReceiving })
            {
                return leaveOut(part)
            }
            let isNew = isVerified && sources[part.source].place == nil
            return part.source == mainSource && !isNew ? .changed : .disagrees
        case .unrelated: return .unrelated
        }
    }

    /// What an answer of a source must not deny. The file has one length wherever it comes from.
    private func known(of source: Int) -> KnownRepresentation {
        KnownRepresentation(validators: sources[source].validators, length: total)
    }

    private mutating func evaluatePart(
        _ head: ResponseHead, _ part: DownloadPart, _ id: Int, _ last: Int64, _ whole: Int64
    ) -> Verdict {
        guard let end = part.end else { return .changed }
        // By its place and validators it is what is there, or else a checksum has to tell.
        let strict = KnownRepresentation(validators: representation?.validators, length: total)
        let isSamePlace = representation?.place == ResourcePlace(head.url)
        if case .part = strict.evaluate(head, from: part.position, upTo: end, isSamePlace: isSamePlace) {
        } else {
            representation?.isCombined = true
        }
        if sources[part.source].place == nil {
            // Only a checksum can tell whether its bytes are those of the others.
            guard isVerified else { return .changed }
            sources[part.source].place = ResourcePlace(head.url)
            sources[part.source].validators = KnownRepresentation.Validators(of: head)
        } else if !isVerified, sources[part.source].validators == nil {
            return part.source == mainSource ? .changed : .disagrees
        }
        sources[part.source].sendsParts = true
        // A server may send less than it was asked for. What lacks is asked for later.
        let responseEnd = min(last + 1, whole)
        parts[id]?.responseEnd = responseEnd
        parts[id]?.end = min(end, responseEnd)
        parts[id]?.isReceiving = true
        return .goesOn
    }

    /// The source of the parts that are under way, or of what is there.
    private var mainSource: Int { sources.firstIndex { $0.place != nil && $0.place == representation?.place } ?? 0 }

    /// A part was asked for, and the whole is the answer.
    private mutating func evaluateRefusal(_ head: ResponseHead, _ part: DownloadPart, _ id: Int) -> Verdict {
        let others = parts.contains { $0.key != id && $0.value.isReceiving }
        // The first answer of a try: the file has changed, or the server sends no parts. It has begun to send the whole.
        if !others, parts.count == 1 {
            parts[id]?.position = 0
            parts[id]?.end = nil
            // Whatever has led to this, does not lead to it again and again.
            refusals += 1
            if refusals > Self.mostRestarts { allowedParts = 1 }
            return evaluateWhole(head, part, id)
        }
        // It sends no parts, or no longer those of this file. The others go on with what they have.
        return leaveOut(part)
    }

    private mutating func leaveOut(_ part: DownloadPart) -> Verdict {
        sources[part.source].sendsParts = false
        allowedParts = max(1, parts.count - 1)
        return .useless
    }

    private mutating func evaluateWhole(_ head: ResponseHead, _ part: DownloadPart, _ id: Int) -> Verdict {
        let known = known(of: part.source)
        let isSamePlace = sources[part.source].place == ResourcePlace(head.url)
        if asksForWhole, known.isDenied(byWhole: head, isSamePlace: isSamePlace) {
            isDenied = true
            return .disagrees
        }
        let told = head.isEncoded ? nil : head.contentLength
        // The same tag is for the same bytes. But one that tells no length may send a part of them, after which nothing can
        // be added to what it has sent.
        let isSame = told == nil && !isVerified && known.hasTag(of: head, isSamePlace: isSamePlace)
        let length = isSame ? known.length : told
        if let lengths, let length, !lengths.contains(length) { return .disagrees }
        let validators = head.isEncoded ? nil : KnownRepresentation.Validators(of: head)
        replaced = Replaced(
            done: done, total: total, representation: representation, source: sources[part.source], index: part.source)
        done = ByteRanges()
        (total, hasEnded, asksForWhole) = (length, false, false)
        representation = nil
        if let validators, let told, told > 0 {
            representation = Representation(
                url: head.url, validators: validators, type: Representation.type(head["Content-Type"]),
                total: told, secrets: secrets)
        }
        sources[part.source].place = ResourcePlace(head.url)
        sources[part.source].validators = validators
        let units = head["Accept-Ranges"].map { $0.lowercased().utf8.elementsEqual("bytes".utf8) } ?? false
        sources[part.source].sendsParts = units && validators != nil && told != nil ? nil : false
        if units, isVerified, told != nil { sources[part.source].sendsParts = nil }
        parts[id]?.end = length
        parts[id]?.responseEnd = length
        parts[id]?.isReceiving = true
        return .startsOver
    }

    // MARK: Ends

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
        /// All parts are to be stopped; then the try goes on with `restart()`.
        case stopAll
        /// The try has failed, with the error of the part that has ended.
        case failed
    }

    /// A part has ended in a try that is being stopped, so that nothing follows.
    package mutating func drop(_ id: Int, at now: UInt64) {
        guard let part = parts.removeValue(forKey: id) else { return }
        note(rateOf: part, at: now)
        if let replaced, parts.isEmpty { restore(replaced) }
    }

    private mutating func note(rateOf part: DownloadPart, at now: UInt64) {
        guard let rate = part.rate(at: now) else { return }
        sources[part.source].rate = sources[part.source].rate.map { ($0 + rate) / 2 } ?? rate
    }

    package mutating func didEnd(_ id: Int, _ end: End, at now: UInt64) -> Next {
        guard let part = parts.removeValue(forKey: id) else { return parts.isEmpty ? .failed : .more }
        note(rateOf: part, at: now)
        var end = end
        // Fewer bytes have come than the response has announced.
        if end.isGood, let remaining = part.remaining, remaining > 0, part.responseEnd == part.end { end = .failed }
        if !end.isGood {
            // Others may still bring the first byte of what replaces it.
            if let replaced, parts.isEmpty { restore(replaced) }
            giveBack(part)
        }
        var isTemporary = false
        if part.asksForRange, !part.isReceiving, part.remaining == 0 {
            // Another has brought its bytes.
            if !end.isGood { allowedParts = max(1, min(allowedParts, parts.count)) }
            if isComplete { return .finished }
            return parts.isEmpty ? next() : .more
        }
        switch end {
        case .complete:
            if part.isReceiving, total == nil, part.end == nil {
                if lengths?.contains(part.position) == false {
                    sources[part.source].isBad = true
                } else {
                    (hasEnded, total) = (true, part.position)
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
            allowedParts = max(1, min(allowedParts, parts.count))
            if parts.isEmpty, !isComplete {
                sources[part.source].failures += 1
                if sources[part.source].failures < Self.mostRefusals { return next() }
                sources[part.source].isDropped = true
            }
        case .refused: sources[part.source].isDropped = true
        case .disagrees: sources[part.source].isBad = true
        case .changed:
            asksForWhole = true
            return .stopAll
        }
        if isComplete { return .finished }
        if !parts.isEmpty { return .more }
        if end.isGood || isTemporary && part.received > 0 && sources.filter(\.isUsable).count > 1 { return next() }
        return isTemporary && sources.filter(\.isUsable).isEmpty ? .failed : fail(from: part.source)
    }

    /// The part before one that has failed, whose response brings those bytes too, brings them after all; unless it has
    /// brought its own, and is being stopped.
    private mutating func giveBack(_ lost: DownloadPart) {
        guard let end = lost.end,
            let (id, before) = parts.first(where: { $0.value.end == lost.position && $0.value.isReceiving }),
            before.position < lost.position, let responseEnd = before.responseEnd, responseEnd > lost.position
        else { return }
        parts[id]?.end = min(end, responseEnd)
    }

    /// Nothing has come of what was to replace what is in the file.
    private mutating func restore(_ old: Replaced) {
        (done, total, representation) = (old.done, old.total, old.representation)
        sources[old.index].place = old.source.place
        sources[old.index].validators = old.source.validators
        replaced = nil
    }

    private mutating func note(failureOf part: DownloadPart) {
        sources[part.source].failures += 1
        if parts.isEmpty || sources[part.source].failures >= 3 { sources[part.source].isDropped = true }
        allowedParts = max(1, min(allowedParts, parts.count))
    }

    /// The source of the part that has ended cannot go on. Another does, if there is one.
    private mutating func fail(from source: Int) -> Next {
        sources[source].isDropped = true
        return next()
    }

    private mutating func next() -> Next { first().map { .ask($0) } ?? .failed }

    /// All parts have been stopped because the file is another one: the whole is asked for.
    package mutating func restart() -> Next {
        parts = [:]
        restarts += 1
        // What has led to this may be the ranges that were asked for beside each other.
        allowedParts = 1
        guard restarts <= Self.mostRestarts else { return .failed }
        return next()
    }

    /// The bytes that are there are not those of the checksum. Nothing is kept, and sources that could have sent the wrong
    /// bytes are asked one after the other. Returns what follows.
    ///
    /// - Parameter contributors: the sources of the bytes.
    package mutating func distrust(_ contributors: Set<Int>) -> Next {
        (done, total, hasEnded, representation, asksForWhole) = (ByteRanges(), nil, false, nil, true)
        replaced = nil
        allowedParts = 1
        if contributors.count <= 1 { for source in contributors { sources[source].isBad = true } }
        return next()
    }
}

/// Pieces with wrong bytes.
extension DownloadPlan {
    /// The bytes of a piece are wrong. Returns the parts that are to be stopped: those of the source that has sent all of
    /// it, which is not asked again.
    ///
    /// - Parameter sender: nil if several have sent some of it, or an earlier download has left some. Nobody can say whose
    ///   bytes were wrong then, and from now on one source is asked at a time.
    package mutating func reject(_ range: Range<Int64>, from sender: Int?) -> [Int] {
        done.remove(range)
        guard let sender, sources.indices.contains(sender) else {
            allowedParts = 1
            return []
        }
        sources[sender].isBad = true
        return parts.filter { $0.value.source == sender }.map(\.key)
    }

    /// No part is under way, and what was rejected lacks.
    package mutating func continueAfterRejection() -> Next { isComplete ? .finished : next() }

    /// The file is gone. What is known of the sources stays.
    package mutating func forgetFile() {
        (parts, done, total, hasEnded) = ([:], ByteRanges(), nil, false)
        (representation, replaced, isDenied) = (nil, nil, false)
    }
}

extension DownloadPlan.End {
    var isGood: Bool { if case .complete = self { true } else { false } }
}
