import ConvoySerialization
import Foundation

/// Decodes the body of a response as a value of the requested type.
enum AwaitedValue {
    /// The serializer for values of a type: `Data` and `String` of any content type, ``JSON`` of any shape,
    /// `HTTPBodyCodable` values of their own type, optional or not, and everything else as `Decodable`, under the rules
    /// of the manager's serializer.
    static func serializer<Value: Decodable & Sendable>(
        of type: Value.Type, rules: HTTPResponseSerializer, decoder: JSONDecoder
    ) -> any HTTPResponseSerialization {
        switch type {
        case is Data.Type: return raw(rules)
        case is String.Type:
            var serializer = StringResponseSerializer()
            serializer.http = raw(rules)
            return serializer
        case is JSON.Type:
            var serializer = JSONTreeResponseSerializer()
            serializer.http = rules
            return serializer
        case let type as any HTTPBodyCodable.Type: return ownSerializer(of: type, rules: rules)
        default:
            let optional = (type as? any OptionalType.Type)?.serializer(rules: rules, decoder: decoder)
            return optional ?? DecodableResponseSerializer<Value>(rules, decoder: decoder)
        }
    }

    fileprivate static func ownSerializer<Value: HTTPBodyCodable>(
        of type: Value.Type, rules: HTTPResponseSerializer
    ) -> any HTTPResponseSerialization {
        HTTPBodyResponseSerializer(type, rules: rules)
    }

    /// The same rules for raw bytes, which need no JSON content type.
    private static func raw(_ rules: HTTPResponseSerializer) -> HTTPResponseSerializer {
        var rules = rules
        if rules.acceptableContentTypes == JSONResponseSerializer.contentTypes { rules.acceptableContentTypes = nil }
        return rules
    }

    /// The value of a response without a body; nil if the type has none.
    static func empty<Value>(_ type: Value.Type) -> Value? {
        switch type {
        case is Data.Type: Data() as? Value
        case is String.Type: "" as? Value
        case let type as any OptionalType.Type: type.none as? Value
        default: nil
        }
    }
}

private protocol OptionalType {
    static var none: Any { get }
    /// That of the wrapped type, if it is not decoded as JSON; otherwise a `null` is a value, too.
    static func serializer(rules: HTTPResponseSerializer, decoder: JSONDecoder) -> (any HTTPResponseSerialization)?
}

extension Optional: OptionalType {
    fileprivate static var none: Any { Wrapped?(nil) as Any }

    fileprivate static func serializer(
        rules: HTTPResponseSerializer, decoder: JSONDecoder
    ) -> (any HTTPResponseSerialization)? {
        switch Wrapped.self {
        case let type as Data.Type: AwaitedValue.serializer(of: type, rules: rules, decoder: decoder)
        case let type as String.Type: AwaitedValue.serializer(of: type, rules: rules, decoder: decoder)
        case let type as JSON.Type: AwaitedValue.serializer(of: type, rules: rules, decoder: decoder)
        case let type as any HTTPBodyCodable.Type: AwaitedValue.ownSerializer(of: type, rules: rules)
        default: nil
        }
    }
}

extension RequestSettings.Values {
    /// Makes the response become a value of a type, decoded by the awaiting task if the response is plainly acceptable.
    mutating func await<Value: Decodable & Sendable>(_ type: Value.Type) {
        let chosen = AwaitedValue.serializer(of: type, rules: serializer.serializer.http, decoder: decoder ?? JSONDecoder())
        serializer = SerializerFacts(chosen)
        holder.awaitedValue = chosen as? any PlainJSONAcceptance
    }
}
