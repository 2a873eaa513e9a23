import Foundation

/// The definition of a server behaviour, and its possible outcomes. By default, each part behaves like an honest
/// server.
struct BehaviourScript: Sendable {
    typealias Answer = @Sendable (BehaviourExchange) -> TestServer.Response

    /// The evaluation of `If-Range` (RFC 9110, section 13.1.5).
    enum IfRange: Sendable {
        /// The condition holds if it equals the strong tag or the date.
        case evaluated
        /// The condition holds if it equals the tag, strong or weak, or the date.
        case comparedWeakly
        /// The condition always holds.
        case ignored
    }

    var outcomes: Set<ResumeOutcome>
    var isHonest = false
    var isUndetectable = false

    /// The current version for a request, given the request's number and whether it was redirected.
    var version: @Sendable (_ number: Int, _ isElsewhere: Bool) -> Int = { _, _ in 0 }
    /// Whether each version is half as long as the previous one.
    var shrinks = false
    var sendsDate = true
    var validators: @Sendable (BehaviourExchange) -> TestServer.Headers = { ["ETag": $0.tag] }
    /// The validators of a part, if they differ from `validators`.
    var partValidators: (@Sendable (BehaviourExchange) -> TestServer.Headers)?
    var ifRange = IfRange.evaluated
    /// The response that takes precedence over all others; nil for none.
    var first: @Sendable (BehaviourExchange) -> TestServer.Response? = { _ in nil }
    var whole: Answer = { $0.whole() }
    /// The response to a range request whose condition holds.
    var part: Answer = { $0.part() }
    /// Whether `part` also answers a range that begins at or after the end, instead of a 416.
    var answersPastEnd = false
    /// The transformation applied to each response before it is sent.
    var wire: @Sendable (BehaviourExchange, TestServer.Response) -> TestServer.Response = { $1 }

    init(_ outcomes: ResumeOutcome...) { self.outcomes = Set(outcomes) }

    /// Returns a copy with one property replaced.
    func with<Value>(_ part: WritableKeyPath<Self, Value>, _ value: Value) -> Self {
        var copy = self
        copy[keyPath: part] = value
        return copy
    }

    /// A copy that serves a different representation for each request.
    var changing: Self { with(\.version, { number, _ in number }) }
    var ignoringIfRange: Self { with(\.ifRange, .ignored) }
    var honest: Self { with(\.isHonest, true) }
    /// A copy that sends the complete body in chunks.
    var chunked: Self { with(\.whole, { $0.whole().framed(.chunked) }) }

    func answer(_ exchange: BehaviourExchange, ifRange condition: String?) -> TestServer.Response {
        var exchange = exchange
        exchange.validators = validators(exchange)
        return wire(exchange, selected(exchange, condition))
    }

    private func selected(_ given: BehaviourExchange, _ condition: String?) -> TestServer.Response {
        var exchange = given
        if let response = first(exchange) { return response }
        guard let asked = exchange.asked, holds(condition, exchange.validators) else { return whole(exchange) }
        guard asked < exchange.size || answersPastEnd else { return exchange.unsatisfiable(exchange.size) }
        if let partValidators { exchange.validators = partValidators(exchange) }
        return part(exchange)
    }

    private func holds(_ condition: String?, _ validators: TestServer.Headers) -> Bool {
        guard let condition, ifRange != .ignored else { return true }
        if condition == validators["ETag"] { return ifRange == .comparedWeakly || !condition.hasPrefix("W/") }
        return condition == validators["Last-Modified"]
    }
}

/// The definition of each behaviour.
extension ServerBehaviour {
    var script: BehaviourScript {
        switch self {
        case .honest, .honestByDate, .honestInChunks, .misleadingTrailers, .misleadingInterimResponses, .ignoresRange,
            .noValidator, .weakEntityTag, .changesBetweenRequests, .shrinksBetweenRequests, .partOfRange,
            .redirectsAlways, .gzip, .gzipOfTwoMembers, .nonAuthoritative:
            return honestScript.honest
        case .ignoresIfRange, .ignoresIfRangeInChunks, .ignoresIfRangeByDate, .partWithoutEntityTag,
            .partWithoutLastModified, .partWithWeakEntityTag, .partWithOtherEntityTag, .validatorsOnPartOnly,
            .weakEntityTagTakenForStrong, .lowercaseWeakEntityTag, .unquotedEntityTag, .quoteInsideEntityTag,
            .emptyEntityTag, .twoEntityTags, .lastModifiedChangesAlone, .youngLastModified, .futureLastModified,
            .lastModifiedWithoutDate, .unreadableLastModified, .overflowingDates, .entityTagNeverChanges,
            .lastModifiedNeverChanges:
            return validatorScript
        case .rangeOffByOne, .contentRangeOffByOne, .bytesFromAnotherOffset, .otherCompleteLength, .noContentRange,
            .twoContentRanges, .invertedContentRange, .contentRangeWithoutUnit, .otherRangeUnit, .negativeContentRange,
            .overflowingContentRange, .multipartByteranges, .multipartByterangesWithContentRange, .wholeAsPart,
            .unaskedPart, .unaskedPartLater, .restAsWhole:
            return rangeScript
        case .partOfPartAfterChunks, .partOfPartWithUnknownTotal, .partCutAtConnectionClose, .partEndsEarlyInChunks,
            .partWithSmallerContentLength, .partWithLargerContentLength, .partWithExtraBytes,
            .partWithExtraBytesAfterChunks, .partWithExtraBytesInChunks, .overflowingContentLength,
            .contentLengthBesideChunks:
            return lengthScript
        case .gzipAnswerToRange, .gzipPart, .identityPartOfGzip, .gzipThenIdentity, .gzipTransferCoding, .gzipCutShort,
            .unknownContentEncoding:
            return encodingScript
        case .alwaysUnsatisfiable, .unsatisfiableAtOffset, .unsatisfiableAtOffsetAfterChunks,
            .unsatisfiableWithoutLength, .noContent, .emptyWhole, .notModified, .preconditionFailed, .gone,
            .serverError, .unavailableAtFirst, .unavailableOnResume, .redirectsRange, .redirectsRangeToOtherEntity,
            .redirectsRangeToEqualEntityTag, .redirectsRangeToWhole:
            return statusScript
        case .cutAtContentLength, .resets, .stalls, .cutInChunks, .cutAtConnectionClose, .answersLikeHEAD,
            .closesBeforeHead, .resetsBeforeHead, .cutInHead, .switchesProtocols, .notHTTP:
            return connectionScript
        }
    }

    /// The possible outcomes of a download that is paused halfway, resumed, and not retried. A client that gives up
    /// when it could start over is also correct, but less useful.
    public var outcomes: Set<ResumeOutcome> { script.outcomes }

    /// Whether every response conforms to the RFC, so that a client must not fail. A client that cannot discard written
    /// bytes may fail, unless `.appended` is the only outcome.
    public var isHonest: Bool { script.isHonest }

    /// Whether no client can detect that the bytes are wrong, because the server's validators claim that they are
    /// unchanged. Tests should skip these behaviours; `outcomes` is empty.
    public var isUndetectable: Bool { script.isUndetectable }
}

// MARK: - Conforming to RFC 9110

extension ServerBehaviour {
    private var honestScript: BehaviourScript {
        switch self {
        case .honestByDate: return BehaviourScript(.appended).with(\.validators, { ["Last-Modified": $0.modified] })
        case .honestInChunks: return BehaviourScript(.appended).chunked
        case .misleadingTrailers:
            let trailers: TestServer.Headers = [
                "ETag": "\"trailer\"", "Content-Length": "3", "Content-Range": "bytes 0-2/3", "Content-Encoding": "gzip",
            ]
            return BehaviourScript(.appended).with(\.wire, { $0.size > 0 ? $1.trailers(trailers) : $1 })
        case .misleadingInterimResponses:
            let fields: TestServer.Headers = [
                "ETag": "\"interim\"", "Content-Length": "5", "Content-Range": "bytes 0-1/2", "Link": "</style.css>",
            ]
            return BehaviourScript(.appended).with(
                \.wire, { $1.preceded(by: 103, headers: fields).preceded(by: 103, headers: fields) })
        case .ignoresRange:
            return BehaviourScript(.startedOver).with(
                \.first, { $0.whole().header("Accept-Ranges", "none") })
        case .noValidator: return BehaviourScript(.startedOver).changing.with(\.validators, { _ in [:] })
        case .weakEntityTag:
            return BehaviourScript(.startedOver).changing.with(\.validators, { ["ETag": "W/" + $0.constantTag] })
        case .changesBetweenRequests: return BehaviourScript(.startedOver).changing
        case .shrinksBetweenRequests: return BehaviourScript(.startedOver).changing.with(\.shrinks, true)
        case .partOfRange: return BehaviourScript(.appended, .startedOver).with(\.part, { $0.part(through: $0.middle) })
        case .redirectsAlways:
            return BehaviourScript(.appended, .startedOver).with(\.first, { $0.isElsewhere ? nil : $0.redirect() })
        case .gzip:
            return BehaviourScript(.startedOver).with(\.answersPastEnd, true)
                .with(\.whole, { $0.whole($0.encoded).header("Content-Encoding", "gzip") })
                .with(\.part, { $0.encodedPart() })
        case .gzipOfTwoMembers:
            return BehaviourScript(.startedOver).with(
                \.first,
                {
                    let half = $0.size / 2
                    let members = StoredGzip.member($0.entity[..<half]) + StoredGzip.member(Data($0.entity[half...]))
                    return $0.whole(members).header("Content-Encoding", "gzip")
                })
        case .nonAuthoritative: return BehaviourScript(.startedOver).with(\.first, { $0.whole(status: 203) })
        default: return BehaviourScript(.appended)
        }
    }
}

/// The possible outcomes of a download that was paused halfway and resumed.
public enum ResumeOutcome: String, CaseIterable, Sendable, Codable {
    /// Success with the right bytes, with the rest appended to the first part.
    case appended
    /// Success with the right bytes, all from a response that began at the first byte.
    case startedOver
    /// Failure with an error.
    case failed
}
