import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation

/// Evaluation of the responses to a plan's requests (RFC 9110, sections 13.1.5, 14 and 15.3.7).
extension DownloadPlan {
    /// The evaluation of a response head.
    package enum Verdict: Equatable, Sendable {
        /// The response continues the existing bytes.
        case goesOn
        /// The response starts with the first byte of the complete file.
        case startsOver
        /// The response is useless for this part, which must be stopped.
        case useless
        /// The file differs from the existing bytes: all parts must be stopped, and the complete file requested.
        case changed
        /// The source has a file that differs from that of the other sources or from the expected file, and is not used
        /// again.
        case disagrees
        /// The response is not about the file, for example a server error.
        case unrelated
    }

    /// Evaluates and records the head of a part's response. The part must be stopped if the verdict requires it.
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

    /// Records that the response to a part is not the file, according to its status or type.
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
        // If another part has fetched this part's bytes in the meantime, the response is useless.
        guard part.remaining != 0 else { return .useless }
        let known = known(of: part.source)
        // If a checksum is known, it decides whether bytes from a different location are correct.
        let isSamePlace = isVerified || sources[part.source].place.map { $0 == ResourcePlace(head.url) } ?? true
        let answer = known.evaluate(head, from: part.position, upTo: part.end, isSamePlace: isSamePlace)
        switch answer {
        case .part(let last, let whole): return evaluatePart(head, part, id, last, whole)
        case .whole: return evaluateRefusal(head, part, id)
        case .complete, .useless, .differs:
            // The response is a success, but not a range of the file. The other parts continue.
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

    /// Returns the facts that a response of a source must not contradict. The length of the file is the same for all
    /// sources.
    private func known(of source: Int) -> RepresentationFacts {
        RepresentationFacts(validators: sources[source].validators, length: total)
    }

    private mutating func evaluatePart(
        _ head: ResponseHead, _ part: DownloadPart, _ id: Int, _ last: Int64, _ whole: Int64
    ) -> Verdict {
        guard let end = part.end else { return .changed }
        // If the location or the validators differ, only a checksum can confirm the combined bytes.
        let strict = RepresentationFacts(validators: representation?.validators, length: total)
        let isSamePlace = representation?.place == ResourcePlace(head.url)
        if case .part = strict.evaluate(head, from: part.position, upTo: end, isSamePlace: isSamePlace) {
        } else {
            contents.representation?.isCombined = true
        }
        if sources[part.source].place == nil {
            // Only a checksum can confirm that these bytes match the others.
            guard isVerified else { return .changed }
            sources[part.source].place = ResourcePlace(head.url)
            sources[part.source].validators = RepresentationFacts.Validators(of: head)
        } else if !isVerified, sources[part.source].validators == nil {
            return part.source == mainSource ? .changed : .disagrees
        }
        sources[part.source].sendsParts = true
        // A server may send less than requested. The missing bytes are requested later.
        let responseEnd = min(last + 1, whole)
        parts[id]?.responseEnd = responseEnd
        parts[id]?.end = min(end, responseEnd)
        parts[id]?.isReceiving = true
        return .goesOn
    }

    /// The source of the running parts, or of the existing bytes.
    private var mainSource: Int { sources.firstIndex { $0.place != nil && $0.place == representation?.place } ?? 0 }

    /// Evaluates a complete response to the request for a range.
    private mutating func evaluateRefusal(_ head: ResponseHead, _ part: DownloadPart, _ id: Int) -> Verdict {
        let others = parts.contains { $0.key != id && $0.value.isReceiving }
        // This is the first response of the attempt. The server has begun to send the complete file, because the file
        // has changed or ranges are not supported.
        if !others, parts.count == 1 {
            parts[id]?.position = 0
            parts[id]?.end = nil
            // Prevent endless restarts, regardless of the cause.
            refusals += 1
            if refusals > Self.mostRestarts { allowedParts = 1 }
            return evaluateWhole(head, part, id)
        }
        // The server does not support ranges, or no longer has this file. The other parts continue.
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
        // The same tag identifies the same bytes, so use the known length. Without a length, an incomplete response
        // could not be resumed.
        let isSame = announced == nil && !isVerified && known.hasTag(of: head, isSamePlace: isSamePlace)
        let length = isSame ? known.length : announced
        if let lengths, let length, !lengths.contains(length) { return .disagrees }
        let validators = head.isEncoded ? nil : RepresentationFacts.Validators(of: head)
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
            part.end = length
            part.responseEnd = length
            part.isReceiving = true
            parts[id] = part
        }
        return .startsOver
    }
}
