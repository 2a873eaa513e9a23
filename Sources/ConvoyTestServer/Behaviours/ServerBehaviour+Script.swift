import Foundation

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

    /// The possible outcomes of a download that is paused half-way, resumed, and not retried. A client that gives up
    /// where it could start over is also correct, but less useful.
    public var outcomes: Set<ResumeOutcome> { script.outcomes }

    /// Whether every answer conforms to the RFC, so that a client must not fail. One that cannot discard what it has
    /// written may fail, unless `.appended` is the only outcome.
    public var isHonest: Bool { script.isHonest }

    /// Whether a client cannot detect that the bytes are wrong, as the server claims that they are the same. The result
    /// counts neither for a client nor against it; `outcomes` is empty.
    public var isUndetectable: Bool { script.isUndetectable }
}

// MARK: - As RFC 9110 says

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
            return BehaviourScript(.startedOver).with(\.answersBehindEnd, true)
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
