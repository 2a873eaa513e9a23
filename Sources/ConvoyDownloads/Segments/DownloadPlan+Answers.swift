import ConvoyOperations
import ConvoySupport
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

    /// Judges the head of a part's answer, and notes it. The part is to be stopped if the verdict says so.
    package mutating func evaluate(_ head: ResponseHead, for id: Int) -> Verdict {
        let verdict = self.verdict(of: head, for: id)
        switch verdict {
        case .goesOn, .startsOver, .unrelated: break
        case .useless: parts[id]?.ending = .useless
        case .changed: parts[id]?.ending = .changed
        case .disagrees: parts[id]?.ending = .disagrees
        }
        return verdict
    }

    /// The answer to a part is none of the server's that is about the file, by its status or type.
    package mutating func refuse(_ id: Int) { parts[id]?.ending = .refused }

    private mutating func verdict(of head: ResponseHead, for id: Int) -> Verdict {
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
            contents.representation?.isCombined = true
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
        let place = ResourcePlace(head.url)
        let isSamePlace = sources[part.source].place == place
        if asksForWhole, known.isDenied(byWhole: head, isSamePlace: isSamePlace) {
            isDenied = true
            return .disagrees
        }
        let announced = head.isEncoded ? nil : head.contentLength
        // The same tag is for the same bytes. But an answer without a length may bring a part of them, after which nothing can
        // be added to what it has sent.
        let isSame = announced == nil && !isVerified && known.hasTag(of: head, isSamePlace: isSamePlace)
        let length = isSame ? known.length : announced
        if let lengths, let length, !lengths.contains(length) { return .disagrees }
        let validators = head.isEncoded ? nil : KnownRepresentation.Validators(of: head)
        replaced = Replaced(contents: contents, source: sources[part.source], index: part.source)
        contents = Contents(total: length)
        asksForWhole = false
        if let validators, let announced, announced > 0 {
            contents.representation = Representation(
                url: head.url, validators: validators, type: Representation.type(head["Content-Type"]),
                total: announced, secrets: secrets)
        }
        sources[part.source].place = place
        sources[part.source].validators = validators
        let units = head["Accept-Ranges"].map { ASCII.equalIgnoringCase($0.utf8, "bytes".utf8) } ?? false
        sources[part.source].sendsParts = units && validators != nil && announced != nil ? nil : false
        if units, isVerified, announced != nil { sources[part.source].sendsParts = nil }
        if var part = parts[id] {
            (part.end, part.responseEnd, part.isReceiving) = (length, length, true)
            parts[id] = part
        }
        return .startsOver
    }
}
