import Foundation

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
            // `unknownContentEncoding`: a client can only deliver the bytes as they were sent.
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
        BehaviourScript().with(\.outcomes, Set(outcomes)).ignoringIfRange.with(\.answersBehindEnd, true)
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
