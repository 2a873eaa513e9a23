import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySerialization

@Suite struct ParameterEncoderTests {
    @Test func `requesting a container twice returns the same container`() throws {
        struct Twice: Encodable {
            enum Key: CodingKey { case map, list, one, two }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                var first = container.nestedContainer(keyedBy: Key.self, forKey: .map)
                try first.encode(1, forKey: .one)
                var second = container.nestedContainer(keyedBy: Key.self, forKey: .map)
                try second.encode(2, forKey: .two)
                try first.encode(3, forKey: .list)
                var list = container.nestedUnkeyedContainer(forKey: .list)
                try list.encode(1)
                var more = container.nestedUnkeyedContainer(forKey: .list)
                try more.encode(more.count)
            }
        }
        #expect(try ParameterValue(encoding: Twice()) == ["map": ["one": 1, "two": 2, "list": 3], "list": [1, 1]])
    }

    @Test func `every encodable value is encoded as by JSONEncoder`() throws {
        let seed = UInt64.random(in: 0...999_999_999)
        print("ParameterEncoderTests: seed \(seed)")
        var random = RandomEncodables(generator: SplitMix64(seed: seed))
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .secondsSince1970
        var serializer = JSONRequestSerializer()
        serializer.dates = .secondsSince1970
        for round in 0..<PropertyBudget.rounds(500) {
            let value = random.next()
            let expected = try JSON(parsing: try encoder.encode(value))
            let request = try serializer.request(
                method: .post, url: exampleURL, parameters: try ParameterValue(encoding: value))
            let found = try JSON(parsing: try #require(request.httpBody))
            #expect(found == expected, "seed \(seed), round \(round)")
            if found != expected { return }
        }
    }

    @Test func `endlessly nested containers are an error, not a crash`() {
        struct Deep: Encodable {
            var isKeyed: Bool
            func encode(to encoder: any Encoder) throws {
                if isKeyed {
                    var container = encoder.container(keyedBy: RandomEncodable.Key.self)
                    for _ in 0..<3_000 {
                        let key = RandomEncodable.Key("k")
                        container = container.nestedContainer(keyedBy: RandomEncodable.Key.self, forKey: key)
                    }
                } else {
                    var container = encoder.unkeyedContainer()
                    for _ in 0..<3_000 { container = container.nestedUnkeyedContainer() }
                }
            }
        }
        #expect(throws: EncodingError.self) { try ParameterValue(encoding: Deep(isKeyed: true)) }
        #expect(throws: EncodingError.self) { try ParameterValue(encoding: Deep(isKeyed: false)) }
    }
}
