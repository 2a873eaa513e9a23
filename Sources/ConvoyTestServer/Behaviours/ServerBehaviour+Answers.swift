import ConvoySupport
import Foundation

/// Behaviours whose range is wrong or contradicts the body.
extension ServerBehaviour {
    var rangeScript: BehaviourScript {
        switch self {
        case .rangeOffByOne:
            return BehaviourScript(.startedOver).with(
                \.part, { $0.part(max(0, min($0.last, $0.offset + ($0.chance < 0.5 ? 1 : -1)))) })
        case .contentRangeOffByOne:
            return BehaviourScript(.startedOver).with(
                \.part, { $0.part("bytes \($0.offset + 1)-\($0.last + 1)/\($0.size + 1)") })
        case .bytesFromAnotherOffset:
            return BehaviourScript().with(\.isUndetectable, true)
                .with(\.part, { $0.part(body: $0.bytes(0, $0.last - $0.offset)) })
        case .otherCompleteLength:
            return BehaviourScript(.startedOver).with(
                \.part, { $0.part(of: String($0.size + ($0.chance < 0.5 ? 1000 : 1))) })
        case .noContentRange: return BehaviourScript(.startedOver).with(\.part, { $0.part(nil) })
        case .twoContentRanges:
            return BehaviourScript(.startedOver).with(
                \.part, { $0.part().header("Content-Range", "bytes 0-\($0.last)/\($0.size)") })
        case .invertedContentRange:
            return BehaviourScript(.startedOver).with(
                \.part, { $0.part("bytes \($0.offset)-\($0.offset - 1)/\($0.size)") })
        case .contentRangeWithoutUnit:
            return BehaviourScript(.startedOver).with(\.part, { $0.part("\($0.offset)-\($0.last)/\($0.size)") })
        case .otherRangeUnit:
            return BehaviourScript(.startedOver).with(\.part, { $0.part("lines \($0.offset)-\($0.last)/\($0.size)") })
        case .negativeContentRange:
            return BehaviourScript(.startedOver).with(\.part, { $0.part("bytes -\($0.offset)-\($0.last)/\($0.size)") })
        case .overflowingContentRange:
            return BehaviourScript(.startedOver).with(
                \.part, { $0.part("bytes \($0.offset)-99999999999999999998/99999999999999999999") })
        case .multipartByteranges:
            return BehaviourScript(.startedOver).with(\.part, { Self.multipart($0, contentRange: nil) })
        case .multipartByterangesWithContentRange:
            return BehaviourScript(.startedOver).with(
                \.part, { Self.multipart($0, contentRange: "bytes \($0.offset)-\($0.last)/\($0.size)") })
        case .wholeAsPart: return BehaviourScript(.startedOver).with(\.part, { $0.part(0) })
        case .unaskedPart:
            return BehaviourScript(.failed).with(\.whole, { $0.part($0.size / 3) }).ignoringIfRange
        case .unaskedPartLater:
            return BehaviourScript(.failed).with(
                \.first, { $0.number == 0 ? nil : $0.part(min($0.offset + 7, max(0, $0.last))) })
        default:
            // `restAsWhole`: Content-Range has no meaning without a 206 (RFC 9110, section 14.4), but the tag belongs
            // to a longer entity.
            return BehaviourScript(.startedOver).with(
                \.part,
                {
                    $0.whole($0.bytes($0.offset, $0.last))
                        .header("Content-Range", "bytes \($0.offset)-\($0.last)/\($0.size)")
                })
        }
    }

    var lengthScript: BehaviourScript {
        let extra = Data("extra".utf8)
        switch self {
        case .partOfPartAfterChunks:
            return BehaviourScript(.startedOver, .failed).chunked.with(\.part, { $0.part(through: $0.middle) })
        case .partOfPartWithUnknownTotal:
            return BehaviourScript(.startedOver, .failed).chunked.with(\.part, { $0.part(through: $0.middle, of: "*") })
        case .partCutAtConnectionClose:
            return BehaviourScript(.startedOver, .failed).chunked.with(
                \.part, { $0.part(body: $0.bytes($0.offset, $0.middle - 1)).framed(.closeDelimited) })
        case .partEndsEarlyInChunks:
            return BehaviourScript(.startedOver, .failed).chunked.with(
                \.part, { $0.part(body: $0.bytes($0.offset, $0.middle - 1)).framed(.chunked) })
        case .partWithSmallerContentLength:
            return BehaviourScript(.startedOver, .failed).chunked.with(
                \.part, { $0.part(body: $0.bytes($0.offset, $0.middle - 1)) })
        case .partWithLargerContentLength:
            return BehaviourScript(.startedOver, .failed).with(
                \.part, { $0.part().contentLength($0.last - $0.offset + 6) })
        case .partWithExtraBytes:
            return BehaviourScript(.startedOver, .failed).with(
                \.part, { $0.part(body: $0.bytes($0.offset, $0.last) + extra) })
        case .partWithExtraBytesAfterChunks:
            return BehaviourScript(.startedOver, .failed).chunked.with(
                \.part, { $0.part(body: $0.bytes($0.offset, $0.last) + extra) })
        case .partWithExtraBytesInChunks:
            return BehaviourScript(.startedOver, .failed).chunked.with(
                \.part, { $0.part(body: $0.bytes($0.offset, $0.last) + extra).framed(.chunked) })
        case .overflowingContentLength:
            return BehaviourScript(.appended, .startedOver, .failed).with(
                \.part, { $0.part().header("Content-Length", "99999999999999999999") })
        default:
            // The remaining case is `contentLengthBesideChunks`.
            return BehaviourScript(.appended, .startedOver, .failed).with(
                \.wire, { $1.header("Content-Length", String($0.size / 2)).framed(.chunked) })
        }
    }

    /// Returns a 206 with one part in `multipart/byteranges` (RFC 9110, section 14.6).
    private static func multipart(_ exchange: BehaviourExchange, contentRange: String?) -> TestServer.Response {
        let (first, last, size) = (exchange.offset, exchange.last, exchange.size)
        var body = Data("--boundary\r\nContent-Range: bytes \(first)-\(last)/\(size)\r\n\r\n".utf8)
        body += exchange.bytes(first, last)
        body += Data("\r\n--boundary--\r\n".utf8)
        return exchange.part(contentRange, body: body)
            .header("Content-Type", "multipart/byteranges; boundary=boundary")
    }
}

/// Behaviours with encodings, statuses and redirects.
extension ServerBehaviour {
    var encodingScript: BehaviourScript {
        let gzip: BehaviourScript.Answer = { $0.whole($0.encoded).header("Content-Encoding", "gzip") }
        switch self {
        case .gzipAnswerToRange: return BehaviourScript(.startedOver).with(\.part, gzip)
        case .gzipPart: return BehaviourScript(.startedOver).with(\.part, { $0.encodedPart() })
        case .identityPartOfGzip: return BehaviourScript(.startedOver).with(\.whole, gzip)
        case .gzipThenIdentity:
            return BehaviourScript(.appended, .startedOver, .failed).with(
                \.whole, { gzip($0).header("Content-Encoding", "identity").framed(.chunked) })
        case .gzipTransferCoding:
            return BehaviourScript(.appended, .startedOver, .failed).with(
                \.whole, { $0.whole($0.encoded).header("Transfer-Encoding", "gzip").framed(.chunked) })
        case .gzipCutShort:
            return BehaviourScript(.failed).with(
                \.first,
                {
                    let encoded = $0.encoded
                    return $0.whole(encoded.prefix(encoded.count / 2)).header("Content-Encoding", "gzip")
                })
        default:
            // In the remaining case, `unknownContentEncoding`, a client can only deliver the bytes as received.
            return BehaviourScript(.startedOver, .failed).with(
                \.first, { $0.whole().header("Content-Encoding", "unheard-of") })
        }
    }

    var statusScript: BehaviourScript {
        switch self {
        case .alwaysUnsatisfiable: return refusing(416, .startedOver) { $0.unsatisfiable($0.size) }
        case .unsatisfiableAtOffset: return refusing(416, .startedOver) { $0.unsatisfiable($0.asked) }
        case .unsatisfiableAtOffsetAfterChunks: return refusing(416, .startedOver) { $0.unsatisfiable($0.asked) }.chunked
        case .unsatisfiableWithoutLength: return refusing(416, .startedOver) { $0.unsatisfiable(nil) }
        case .noContent: return refusing(204, .startedOver)
        case .emptyWhole:
            return refusing(200, .startedOver) { $0.whole(Data()) }
                .with(\.partValidators, { _ in ["ETag": "\"empty\""] })
        case .notModified: return refusing(304, .startedOver, .failed)
        case .preconditionFailed: return refusing(412, .startedOver, .failed)
        case .gone: return refusing(410, .failed)
        case .serverError: return refusing(500, .failed)
        case .unavailableAtFirst: return unavailable(at: 0)
        case .unavailableOnResume: return unavailable(at: 1)
        case .redirectsRange: return redirecting(.appended, .startedOver)
        case .redirectsRangeToOtherEntity:
            return redirecting(.startedOver).with(\.version, { $1 ? 1 : 0 }).ignoringIfRange
        case .redirectsRangeToEqualEntityTag:
            return redirecting(.startedOver).with(\.version, { $1 ? 1 : 0 })
                .with(\.validators, { ["ETag": $0.constantTag] })
        default:
            // `redirectsRangeToWhole`: the other URL's own tag does not match.
            return redirecting(.startedOver).with(\.version, { $1 ? 1 : 0 })
        }
    }

    private func refusing(
        _ status: Int, _ outcomes: ResumeOutcome..., answer: BehaviourScript.Answer? = nil
    ) -> BehaviourScript {
        BehaviourScript().with(\.outcomes, Set(outcomes)).ignoringIfRange.with(\.answersPastEnd, true)
            .with(\.part, answer ?? { $0.status(status) })
    }

    private func unavailable(at number: Int) -> BehaviourScript {
        BehaviourScript(.failed).with(
            \.first, { $0.number == number ? $0.status(503).header("Retry-After", "0") : nil })
    }

    private func redirecting(_ outcomes: ResumeOutcome...) -> BehaviourScript {
        BehaviourScript().with(\.outcomes, Set(outcomes))
            .with(\.first, { $0.asked != nil && !$0.isElsewhere ? $0.redirect() : nil })
    }
}

/// Behaviours of the connection rather than of the resource.
extension ServerBehaviour {
    var connectionScript: BehaviourScript {
        switch self {
        case .cutAtContentLength: return cutting { .close(afterBytes: $0) }
        case .resets: return cutting { .reset(afterBytes: $0) }
        case .stalls: return cutting { .stall(afterBytes: $0) }
        case .cutInChunks: return cutting(framing: .chunked) { .close(afterBytes: $0) }
        case .cutAtConnectionClose: return cutting(framing: .closeDelimited) { .close(afterBytes: $0) }
        case .answersLikeHEAD: return BehaviourScript(.failed).with(\.part, { $0.part().stalls(afterBytes: 0) })
        case .closesBeforeHead: return losing { $0.failing(.closeBeforeHead) }
        case .resetsBeforeHead: return losing { $0.resetBeforeHead() }
        case .cutInHead: return losing { TestServer.Response.raw("HTTP/1.1 \($0.status) Some") }
        case .switchesProtocols:
            return BehaviourScript(.failed).with(
                \.part, { _ in .raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\n\r\nbytes of the other") })
        default:
            // The remaining case is `notHTTP`.
            return BehaviourScript(.failed).with(\.part, { _ in .raw("220 mail.example.com ESMTP\r\n") })
        }
    }

    /// Returns a script that cuts three of five responses at a random position before their end.
    private func cutting(
        framing: TestServer.Response.Framing = .automatic,
        _ fault: @escaping @Sendable (Int) -> TestServer.Effects.Fault
    ) -> BehaviourScript {
        BehaviourScript(.appended, .startedOver, .failed).with(
            \.wire,
            { exchange, response in
                guard response.status == 200 || response.status == 206 else { return response }
                let framed = response.framed(framing)
                guard exchange.chance < 0.6, framing == .chunked || response.body.count > 0 else { return framed }
                return framed.failing(fault(Int(Double(response.body.count) * exchange.point)))
            })
    }

    /// Returns a script that loses half of the responses.
    private func losing(_ loss: @escaping @Sendable (TestServer.Response) -> TestServer.Response) -> BehaviourScript {
        BehaviourScript(.appended, .startedOver, .failed).with(\.wire, { $0.chance < 0.5 ? loss($1) : $1 })
    }
}

/// Behaviours with wrong or misleading validators.
extension ServerBehaviour {
    var validatorScript: BehaviourScript {
        switch self {
        case .ignoresIfRangeInChunks: return BehaviourScript(.startedOver).changing.ignoringIfRange.chunked
        case .ignoresIfRangeByDate:
            return BehaviourScript(.startedOver).changing.ignoringIfRange
                .with(\.validators, { ["Last-Modified": $0.modified] })
        case .partWithoutEntityTag:
            return BehaviourScript(.startedOver).changing.ignoringIfRange.with(\.partValidators, { _ in [:] })
        case .partWithoutLastModified:
            return BehaviourScript(.startedOver).changing.ignoringIfRange
                .with(\.validators, { ["Last-Modified": $0.modified] }).with(\.partValidators, { _ in [:] })
        case .partWithWeakEntityTag:
            return BehaviourScript(.startedOver).changing.ignoringIfRange
                .with(\.validators, { ["ETag": $0.constantTag] })
                .with(\.partValidators, { ["ETag": "W/" + $0.constantTag] })
        case .partWithOtherEntityTag:
            return BehaviourScript(.startedOver)
                .with(\.part, { $0.part(body: EntityBytes.data(seed: 1, version: -1, count: $0.size - $0.offset)) })
                .with(\.partValidators, { _ in ["ETag": "\"other\""] })
        case .validatorsOnPartOnly:
            return BehaviourScript(.startedOver).changing.ignoringIfRange.with(\.validators, { _ in [:] })
                .with(\.partValidators, { ["ETag": $0.constantTag, "Last-Modified": $0.constantModified] })
        case .weakEntityTagTakenForStrong:
            return BehaviourScript(.startedOver).changing.with(\.ifRange, .comparedWeakly)
                .with(\.validators, { ["ETag": "W/" + $0.constantTag] })
        case .lowercaseWeakEntityTag:
            return BehaviourScript(.startedOver).changing.ignoringIfRange
                .with(\.validators, { ["ETag": "w/" + $0.constantTag] })
        case .unquotedEntityTag:
            return BehaviourScript(.appended, .startedOver).with(\.validators, { ["ETag": $0.opaqueTag()] })
        case .quoteInsideEntityTag:
            return BehaviourScript(.appended, .startedOver).with(\.validators, { ["ETag": "\"a\"\($0.opaqueTag())\""] })
        case .emptyEntityTag:
            return BehaviourScript(.appended, .startedOver).with(\.validators, { _ in ["ETag": "\"\""] })
        case .twoEntityTags:
            return BehaviourScript(.startedOver).changing.ignoringIfRange
                .with(\.validators, { ["ETag": $0.constantTag, "Etag": $0.tag] })
        case .lastModifiedChangesAlone:
            return BehaviourScript(.appended, .startedOver).with(
                \.validators,
                {
                    let time = Date(timeIntervalSince1970: 1_445_412_000 + 60 * Double($0.number))
                    return ["ETag": $0.constantTag, "Last-Modified": HTTPDate.string(time)]
                })
        case .youngLastModified:
            // Two representations may share a date within a minute of the response (RFC 9110, section 8.8.2.2).
            return BehaviourScript(.startedOver).changing.ignoringIfRange
                .with(\.validators, { _ in ["Last-Modified": HTTPDate.string(Date())] })
        case .futureLastModified:
            return BehaviourScript(.startedOver).changing.ignoringIfRange.with(
                \.validators, { _ in ["Last-Modified": HTTPDate.string(Date(timeIntervalSince1970: 4_102_444_800))] })
        case .lastModifiedWithoutDate:
            return BehaviourScript(.startedOver).changing.ignoringIfRange.with(\.sendsDate, false)
                .with(\.validators, { ["Last-Modified": $0.constantModified] })
        case .unreadableLastModified:
            return BehaviourScript(.startedOver).changing.ignoringIfRange
                .with(\.validators, { _ in ["Last-Modified": "the day before yesterday"] })
        case .overflowingDates:
            return BehaviourScript(.startedOver).changing.ignoringIfRange.with(\.sendsDate, false).with(
                \.validators,
                { _ in
                    [
                        "Last-Modified": "Sun, 06 Nov -9223372036854775808 08:49:37 GMT",
                        "Date": "Sun, 06 Nov 9223372036854775807 08:49:37 GMT",
                    ]
                })
        case .entityTagNeverChanges:
            return BehaviourScript().changing.with(\.isUndetectable, true)
                .with(\.validators, { ["ETag": $0.constantTag] })
        case .lastModifiedNeverChanges:
            return BehaviourScript().changing.with(\.isUndetectable, true)
                .with(\.validators, { ["Last-Modified": $0.constantModified] })
        default: return BehaviourScript(.startedOver).changing.ignoringIfRange
        }
    }
}
