import ConvoyTestSupport
import Foundation

@testable import ConvoySerialization

/// Random calls of a decoder and their results. The calls depend on a seed and on the results of previous calls, so
/// that two decoders with the same results receive the same calls.
final class DecodingScript: @unchecked Sendable {
    private(set) var log: [String] = []
    private var random: SplitMix64
    private var rest = 60
    private static let key: CodingUserInfoKey = {
        guard let key = CodingUserInfoKey(rawValue: "script") else { preconditionFailure("Any text is a key.") }
        return key
    }()

    private init(seed: UInt64) { random = SplitMix64(seed: seed) }

    /// Returns the log of a script for a document.
    static func run(seed: UInt64, _ decode: (JSONDecoder) throws -> Scripted?) -> [String]? {
        let script = DecodingScript(seed: seed)
        do {
            guard try decode(script.decoder()) != nil else { return nil }
            script.log.append("decoded")
        } catch {
            script.log.append(DecodingOutcome.text(of: error))
        }
        return script.log
    }

    /// A value that decodes itself according to the script.
    struct Scripted: Decodable {
        init(from decoder: any Decoder) throws {
            guard let script = decoder.userInfo[DecodingScript.key] as? DecodingScript else { return }
            try script.use(decoder)
        }
    }

    private func decoder() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.userInfo[DecodingScript.key] = self
        switch pick(6) {
        case 0: decoder.dateDecodingStrategy = .secondsSince1970
        case 1: decoder.dateDecodingStrategy = .millisecondsSince1970
        case 2: decoder.dateDecodingStrategy = .iso8601
        case 3:
            decoder.dateDecodingStrategy = .custom { [unowned self] decoder in
                try use(decoder)
                return Date(timeIntervalSince1970: 1)
            }
        default: break
        }
        switch pick(4) {
        case 0: decoder.dataDecodingStrategy = .deferredToData
        case 1:
            decoder.dataDecodingStrategy = .custom { [unowned self] decoder in
                try use(decoder)
                return Data()
            }
        default: break
        }
        switch pick(4) {
        case 0: decoder.keyDecodingStrategy = .convertFromSnakeCase
        case 1:
            decoder.keyDecodingStrategy = .custom { [unowned self] path in
                log.append("key \(path.map(\.stringValue))")
                let name = path[path.count - 1].stringValue
                return AnyKey(name.count > 1 ? String(name.dropLast()) : name)
            }
        default: break
        }
        if pick(2) == 0 {
            decoder.nonConformingFloatDecodingStrategy = .convertFromString(
                positiveInfinity: "a", negativeInfinity: "text", nan: "")
        }
        return decoder
    }

    // MARK: Calls

    private func use(_ decoder: any Decoder) throws {
        for _ in 0...pick(3) where rest > 0 {
            try attempt {
                switch pick(5) {
                case 0, 1: try use(decoder.container(keyedBy: AnyKey.self))
                case 2, 3: try use(decoder.unkeyedContainer())
                default: try use(decoder.singleValueContainer())
                }
            }
        }
    }

    private func use(_ container: KeyedDecodingContainer<AnyKey>) throws {
        log.append("keyed \(container.codingPath.map(\.stringValue))")
        // After keys have been listed, the decoder looks them up differently.
        var keys = RandomDocument.keys
        if pick(2) == 0 {
            keys = container.allKeys.map(\.stringValue).sorted() + keys.prefix(6)
            log.append("keys \(keys)")
        }
        for _ in 0...pick(6) where rest > 0 {
            let key = AnyKey(keys[pick(pick(2) == 0 ? 6 : keys.count)], pick(3) == 0 ? 7 : nil)
            try attempt {
                switch pick(9) {
                case 0: log.append("contains \(key.stringValue) \(container.contains(key))")
                case 1: log.append("nil \(key.stringValue) \(try container.decodeNil(forKey: key))")
                case 2: try use(container.nestedContainer(keyedBy: AnyKey.self, forKey: key))
                case 3: try use(container.nestedUnkeyedContainer(forKey: key))
                case 4: _ = try Scripted(from: pick(2) == 0 ? container.superDecoder() : container.superDecoder(forKey: key))
                default: try record(DecodingCalls.keyed[pick(DecodingCalls.keyed.count)](container, key))
                }
            }
        }
    }

    private func use(_ container: any UnkeyedDecodingContainer) throws {
        var container = container
        log.append("unkeyed \(container.codingPath.map(\.stringValue)) \(container.count ?? -1)")
        for _ in 0...pick(6) where rest > 0 {
            try attempt {
                switch pick(8) {
                case 0: log.append("nil \(try container.decodeNil())")
                case 1: try use(container.nestedContainer(keyedBy: AnyKey.self))
                case 2: try use(container.nestedUnkeyedContainer())
                case 3: _ = try Scripted(from: container.superDecoder())
                default: try record(DecodingCalls.unkeyed[pick(DecodingCalls.unkeyed.count)](&container))
                }
            }
            log.append("\(container.currentIndex) \(container.isAtEnd)")
        }
    }

    private func use(_ container: any SingleValueDecodingContainer) throws {
        log.append("single \(container.codingPath.map(\.stringValue)) \(container.decodeNil())")
        try record(DecodingCalls.single[pick(DecodingCalls.single.count)](container))
    }

    private func record(_ value: Any?) throws { log.append(value.map(DecodingOutcome.text(of:)) ?? "nothing") }

    /// Runs a step, and ignores most errors.
    private func attempt(_ step: () throws -> Void) throws {
        rest -= 1
        do {
            try step()
        } catch {
            log.append(DecodingOutcome.text(of: error))
            if pick(5) == 0 { throw error }
        }
    }

    private func pick(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }
}
