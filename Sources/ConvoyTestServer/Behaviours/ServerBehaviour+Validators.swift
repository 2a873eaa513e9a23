import ConvoySupport
import Foundation

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
