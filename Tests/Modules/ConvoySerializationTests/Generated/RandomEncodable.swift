import ConvoyTestSupport
import Foundation

/// A value that encodes itself with a random program, which uses every kind of container, sometimes more than once.
struct RandomEncodable: Encodable {
    indirect enum Program {
        case scalar(any Encodable)
        case keyed([(key: String, action: Action)])
        case unkeyed([Action])
        case nothing
    }

    enum Action {
        case null
        case value(Program)
        case nestedKeyed([(key: String, action: Action)])
        case nestedUnkeyed([Action])
        case superEncoder(Program, named: Bool)
    }

    struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(_ text: String) { stringValue = text }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { return nil }
    }

    let program: Program

    func encode(to encoder: any Encoder) throws {
        switch program {
        case .scalar(let value):
            var container = encoder.singleValueContainer()
            try container.encode(value)
        case .keyed(let steps):
            // Both calls return the same container.
            var first = encoder.container(keyedBy: Key.self)
            try run(steps.prefix(steps.count / 2), &first)
            var second = encoder.container(keyedBy: Key.self)
            try run(steps.suffix(from: steps.count / 2), &second)
        case .unkeyed(let actions):
            var container = encoder.unkeyedContainer()
            try run(actions, &container)
        case .nothing: break
        }
    }

    private func run(
        _ steps: some Sequence<(key: String, action: Action)>, _ container: inout KeyedEncodingContainer<Key>
    ) throws {
        for (name, action) in steps {
            let key = Key(name)
            switch action {
            case .null: try container.encodeNil(forKey: key)
            case .value(let program): try container.encode(RandomEncodable(program: program), forKey: key)
            case .nestedKeyed(let steps):
                var nested = container.nestedContainer(keyedBy: Key.self, forKey: key)
                try run(steps, &nested)
            case .nestedUnkeyed(let actions):
                var nested = container.nestedUnkeyedContainer(forKey: key)
                try run(actions, &nested)
            case .superEncoder(let program, let isNamed):
                let encoder = isNamed ? container.superEncoder(forKey: key) : container.superEncoder()
                try RandomEncodable(program: program).encode(to: encoder)
            }
        }
    }

    private func run(_ actions: [Action], _ container: inout any UnkeyedEncodingContainer) throws {
        for action in actions {
            switch action {
            case .null: try container.encodeNil()
            case .value(let program): try container.encode(RandomEncodable(program: program))
            case .nestedKeyed(let steps):
                var nested = container.nestedContainer(keyedBy: Key.self)
                try run(steps, &nested)
            case .nestedUnkeyed(let actions):
                var nested = container.nestedUnkeyedContainer()
                try run(actions, &nested)
            case .superEncoder(let program, _):
                try RandomEncodable(program: program).encode(to: container.superEncoder())
            }
        }
    }
}

/// Creates random encodable values from a seed.
struct RandomEncodables {
    var generator: SplitMix64

    mutating func next() -> RandomEncodable { RandomEncodable(program: .keyed(steps(0))) }

    private mutating func number(_ range: Range<Int>) -> Int { Int.random(in: range, using: &generator) }

    private mutating func program(_ depth: Int) -> RandomEncodable.Program {
        switch number(0..<(depth < 4 ? 9 : 5)) {
        case 0...3: .scalar(scalar())
        case 4: .nothing
        case 5, 6: .keyed(steps(depth))
        default: .unkeyed(actions(depth))
        }
    }

    private mutating func action(_ depth: Int) -> RandomEncodable.Action {
        switch number(0..<(depth < 4 ? 7 : 3)) {
        case 0: .null
        case 1, 2: .value(program(depth + 1))
        case 3: .nestedKeyed(steps(depth + 1))
        case 4: .nestedUnkeyed(actions(depth + 1))
        default: .superEncoder(program(depth + 1), named: number(0..<2) == 0)
        }
    }

    private mutating func actions(_ depth: Int) -> [RandomEncodable.Action] {
        (0..<number(0..<4)).map { _ in action(depth) }
    }

    /// Returns steps for which `JSONEncoder` does not crash: a key with a container or an encoder only receives another
    /// container of the same kind.
    private mutating func steps(_ depth: Int) -> [(key: String, action: RandomEncodable.Action)] {
        var steps: [(key: String, action: RandomEncodable.Action)] = []
        var hasSuper = false
        for index in 0..<number(0..<4) {
            let action = action(depth)
            if case .superEncoder(_, named: false) = action {
                if hasSuper { continue }
                hasSuper = true
            }
            steps.append(("k\(index)", action))
            let again = number(0..<3)
            switch action {
            case .nestedKeyed where again > 0:
                // Use separate keys, because they are written to the same object.
                let more = self.steps(depth + 1).map { (key: "more \($0.key)", action: $0.action) }
                let safe = more.filter { if case .superEncoder(_, named: false) = $0.action { false } else { true } }
                steps.append(("k\(index)", .nestedKeyed(safe)))
            case .nestedUnkeyed where again > 0: steps.append(("k\(index)", .nestedUnkeyed(actions(depth + 1))))
            case .value where again > 0: steps.append(("k\(index)", .value(program(depth + 1))))
            case .null where again > 0: steps.append(("k\(index)", .value(program(depth + 1))))
            default: break
            }
        }
        return steps
    }

    private mutating func scalar() -> any Encodable {
        let bits = generator.next()
        switch number(0..<16) {
        case 0: return Bool.random(using: &generator)
        case 1: return Int8(truncatingIfNeeded: bits)
        case 2: return UInt16(truncatingIfNeeded: bits)
        case 3: return [Int64.min, .max, 0, -1].randomElement(using: &generator) ?? 0
        case 4: return UInt64.max - bits % 3
        case 5: return Int128(Int64.max) * Int128(Int64(truncatingIfNeeded: bits))
        case 6: return Float(Int32(truncatingIfNeeded: bits)) / 10
        case 7: return Double(Int32(truncatingIfNeeded: bits)) / 10
        case 8: return [Double.leastNonzeroMagnitude, .greatestFiniteMagnitude, -0.0].randomElement(using: &generator) ?? 0
        case 9: return Decimal(Int(truncatingIfNeeded: bits)) / 1_000_000_007
        case 10: return Data([1, 2, UInt8(truncatingIfNeeded: bits)])
        case 11: return Date(timeIntervalSince1970: Double(bits % 4_000_000_000))
        case 12: return URL(fileURLWithPath: "/a b/\(bits % 100)")
        case 13: return ["x": [Int(bits % 9): "y"], "\u{1F600}": [:]] as [String: [Int: String]]
        case 14: return [nil, 1, nil] as [Int?]
        default: return "\(bits % 1000) é\n"
        }
    }
}
