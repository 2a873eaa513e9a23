import Foundation

/// Behaviours with wrong ranges, and those whose body and range disagree.
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
            // `restAsWhole`: a Content-Range says nothing where there is no 206 (RFC 9110, section 14.4). But the tag is
            // that of more bytes.
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
            // `contentLengthBesideChunks`.
            return BehaviourScript(.appended, .startedOver, .failed).with(
                \.wire, { $1.header("Content-Length", String($0.size / 2)).framed(.chunked) })
        }
    }

    /// RFC 9110, section 14.6.
    private static func multipart(_ exchange: BehaviourExchange, contentRange: String?) -> TestServer.Response {
        let (first, last, size) = (exchange.offset, exchange.last, exchange.size)
        var body = Data("--boundary\r\nContent-Range: bytes \(first)-\(last)/\(size)\r\n\r\n".utf8)
        body += exchange.bytes(first, last)
        body += Data("\r\n--boundary--\r\n".utf8)
        return exchange.part(contentRange, body: body)
            .header("Content-Type", "multipart/byteranges; boundary=boundary")
    }
}
