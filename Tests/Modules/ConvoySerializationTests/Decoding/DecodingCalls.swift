import Foundation

/// Every decoding call of each container, by requested type. The common types have their own overloads.
enum DecodingCalls {
    typealias Keyed = @Sendable (KeyedDecodingContainer<AnyKey>, AnyKey) throws -> Any?
    typealias Unkeyed = @Sendable (inout any UnkeyedDecodingContainer) throws -> Any?
    typealias Single = @Sendable (any SingleValueDecodingContainer) throws -> Any?

    static let keyed: [Keyed] = {
        var calls: [Keyed] = []
        calls.append { try $0.decode(Bool.self, forKey: $1) }
        calls.append { try $0.decode(String.self, forKey: $1) }
        calls.append { try $0.decode(Double.self, forKey: $1) }
        calls.append { try $0.decode(Float.self, forKey: $1) }
        calls.append { try $0.decode(Int.self, forKey: $1) }
        calls.append { try $0.decode(Int8.self, forKey: $1) }
        calls.append { try $0.decode(Int16.self, forKey: $1) }
        calls.append { try $0.decode(Int32.self, forKey: $1) }
        calls.append { try $0.decode(Int64.self, forKey: $1) }
        calls.append { try $0.decode(Int128.self, forKey: $1) }
        calls.append { try $0.decode(UInt.self, forKey: $1) }
        calls.append { try $0.decode(UInt8.self, forKey: $1) }
        calls.append { try $0.decode(UInt16.self, forKey: $1) }
        calls.append { try $0.decode(UInt32.self, forKey: $1) }
        calls.append { try $0.decode(UInt64.self, forKey: $1) }
        calls.append { try $0.decode(UInt128.self, forKey: $1) }
        calls.append { try $0.decode(Date.self, forKey: $1) }
        calls.append { try $0.decode(Data.self, forKey: $1) }
        calls.append { try $0.decode(URL.self, forKey: $1) }
        calls.append { try $0.decode(Decimal.self, forKey: $1) }
        calls.append { try $0.decode([Int].self, forKey: $1) }
        calls.append { try $0.decode([String?].self, forKey: $1) }
        calls.append { try $0.decode(Double?.self, forKey: $1) }
        calls.append { try $0.decode([[Decimal]].self, forKey: $1) }
        calls.append { try $0.decode(DictionaryOutcome.self, forKey: $1) }
        calls.append { try $0.decode(DecodingScript.Scripted.self, forKey: $1) }
        calls.append { try $0.decode(DecodingScript.Scripted.self, forKey: $1) }
        calls.append { try $0.decode(DecodingScript.Scripted.self, forKey: $1) }
        calls.append { try $0.decode(DecodingScript.Scripted.self, forKey: $1) }
        calls.append { try $0.decode(DecodingScript.Scripted.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Bool.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(String.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Double.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Float.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Int.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Int8.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Int16.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Int32.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Int64.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Int128.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(UInt.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(UInt8.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(UInt16.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(UInt32.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(UInt64.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(UInt128.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Date.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Data.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(URL.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Decimal.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent([Int].self, forKey: $1) }
        calls.append { try $0.decodeIfPresent([String?].self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(Double?.self, forKey: $1) as Any? }
        calls.append { try $0.decodeIfPresent([[Decimal]].self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(DictionaryOutcome.self, forKey: $1) }
        calls.append { try $0.decodeIfPresent(DecodingScript.Scripted.self, forKey: $1) }
        return calls
    }()

    static let unkeyed: [Unkeyed] = {
        var calls: [Unkeyed] = []
        calls.append { try $0.decode(Bool.self) }
        calls.append { try $0.decode(String.self) }
        calls.append { try $0.decode(Double.self) }
        calls.append { try $0.decode(Float.self) }
        calls.append { try $0.decode(Int.self) }
        calls.append { try $0.decode(Int8.self) }
        calls.append { try $0.decode(Int16.self) }
        calls.append { try $0.decode(Int32.self) }
        calls.append { try $0.decode(Int64.self) }
        calls.append { try $0.decode(Int128.self) }
        calls.append { try $0.decode(UInt.self) }
        calls.append { try $0.decode(UInt8.self) }
        calls.append { try $0.decode(UInt16.self) }
        calls.append { try $0.decode(UInt32.self) }
        calls.append { try $0.decode(UInt64.self) }
        calls.append { try $0.decode(UInt128.self) }
        calls.append { try $0.decode(Date.self) }
        calls.append { try $0.decode(Data.self) }
        calls.append { try $0.decode(URL.self) }
        calls.append { try $0.decode(Decimal.self) }
        calls.append { try $0.decode([Int].self) }
        calls.append { try $0.decode([String?].self) }
        calls.append { try $0.decode(Double?.self) }
        calls.append { try $0.decode([[Decimal]].self) }
        calls.append { try $0.decode(DictionaryOutcome.self) }
        calls.append { try $0.decode(DecodingScript.Scripted.self) }
        calls.append { try $0.decode(DecodingScript.Scripted.self) }
        calls.append { try $0.decode(DecodingScript.Scripted.self) }
        calls.append { try $0.decode(DecodingScript.Scripted.self) }
        calls.append { try $0.decode(DecodingScript.Scripted.self) }
        calls.append { try $0.decodeIfPresent(Bool.self) }
        calls.append { try $0.decodeIfPresent(String.self) }
        calls.append { try $0.decodeIfPresent(Double.self) }
        calls.append { try $0.decodeIfPresent(Float.self) }
        calls.append { try $0.decodeIfPresent(Int.self) }
        calls.append { try $0.decodeIfPresent(Int8.self) }
        calls.append { try $0.decodeIfPresent(Int16.self) }
        calls.append { try $0.decodeIfPresent(Int32.self) }
        calls.append { try $0.decodeIfPresent(Int64.self) }
        calls.append { try $0.decodeIfPresent(Int128.self) }
        calls.append { try $0.decodeIfPresent(UInt.self) }
        calls.append { try $0.decodeIfPresent(UInt8.self) }
        calls.append { try $0.decodeIfPresent(UInt16.self) }
        calls.append { try $0.decodeIfPresent(UInt32.self) }
        calls.append { try $0.decodeIfPresent(UInt64.self) }
        calls.append { try $0.decodeIfPresent(UInt128.self) }
        calls.append { try $0.decodeIfPresent(Date.self) }
        calls.append { try $0.decodeIfPresent(Data.self) }
        calls.append { try $0.decodeIfPresent(URL.self) }
        calls.append { try $0.decodeIfPresent(Decimal.self) }
        calls.append { try $0.decodeIfPresent([Int].self) }
        calls.append { try $0.decodeIfPresent([String?].self) }
        calls.append { try $0.decodeIfPresent(Double?.self) as Any? }
        calls.append { try $0.decodeIfPresent([[Decimal]].self) }
        calls.append { try $0.decodeIfPresent(DictionaryOutcome.self) }
        calls.append { try $0.decodeIfPresent(DecodingScript.Scripted.self) }
        return calls
    }()

    static let single: [Single] = {
        var calls: [Single] = []
        calls.append { try $0.decode(Bool.self) }
        calls.append { try $0.decode(String.self) }
        calls.append { try $0.decode(Double.self) }
        calls.append { try $0.decode(Float.self) }
        calls.append { try $0.decode(Int.self) }
        calls.append { try $0.decode(Int8.self) }
        calls.append { try $0.decode(Int16.self) }
        calls.append { try $0.decode(Int32.self) }
        calls.append { try $0.decode(Int64.self) }
        calls.append { try $0.decode(Int128.self) }
        calls.append { try $0.decode(UInt.self) }
        calls.append { try $0.decode(UInt8.self) }
        calls.append { try $0.decode(UInt16.self) }
        calls.append { try $0.decode(UInt32.self) }
        calls.append { try $0.decode(UInt64.self) }
        calls.append { try $0.decode(UInt128.self) }
        calls.append { try $0.decode(Date.self) }
        calls.append { try $0.decode(Data.self) }
        calls.append { try $0.decode(URL.self) }
        calls.append { try $0.decode(Decimal.self) }
        calls.append { try $0.decode([Int].self) }
        calls.append { try $0.decode([String?].self) }
        calls.append { try $0.decode(Double?.self) }
        calls.append { try $0.decode([[Decimal]].self) }
        calls.append { try $0.decode(DictionaryOutcome.self) }
        calls.append { try $0.decode(DecodingScript.Scripted.self) }
        return calls
    }()
}

/// A dictionary, or nil. Foundation's dictionary is unordered, so the first of several errors varies.
struct DictionaryOutcome: Decodable {
    let values: [String: Int?]?
    init(from decoder: any Decoder) throws { values = try? [String: Int?](from: decoder) }
}

/// A key of any name.
struct AnyKey: CodingKey, CustomStringConvertible {
    static let word: CodingUserInfoKey = {
        guard let key = CodingUserInfoKey(rawValue: "word") else { preconditionFailure("Any text is a key.") }
        return key
    }()

    let stringValue: String
    let intValue: Int?

    init(_ name: String, _ number: Int? = nil) { (stringValue, intValue) = (name, number) }
    init?(stringValue: String) {
        guard !stringValue.hasPrefix("hidden") else { return nil }
        self.init(stringValue)
    }
    init?(intValue: Int) { self.init("\(intValue)", intValue) }

    var description: String { "AnyKey \(stringValue)" }
}
