import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySerialization

@Suite struct BodyRoundTripTests {
    /// Returns whether the value read by Foundation is equal to the original.
    private func same(_ object: Any, _ value: ParameterValue, json: Bool) -> Bool {
        switch value {
        case .null: return object is NSNull
        case .bool(let value): return object as? Bool == value
        case .integer(let value): return (object as? NSNumber)?.int64Value == value
        case .unsignedInteger(let value): return (object as? NSNumber)?.uint64Value == value
        case .double(let value):
            guard let read = (object as? NSNumber)?.doubleValue else { return false }
            // JSONSerialization reads some numbers through Decimal, which may round their last bit differently.
            return json ? abs(read - value) <= abs(value) * 1e-14 : read == value
        case .number(let value): return (object as? NSNumber)?.doubleValue == value.double
        case .string(let value): return (object as? String)?.utf8.elementsEqual(value.utf8) ?? false
        case .data(let value): return json ? object as? String == value.base64EncodedString() : object as? Data == value
        case .date(let value): return json ? object as? String == DateText.iso8601(value) : object as? Date == value
        case .array(let values):
            guard let list = object as? [Any], list.count == values.count else { return false }
            return zip(list, values).allSatisfy { same($0, $1, json: json) }
        case .set(let values): return same(object, .array(ParameterValue.sorted(values)), json: json)
        case .dictionary(let values):
            guard let table = object as? [String: Any], table.count == values.count else { return false }
            return values.allSatisfy { key, value in table[key].map { same($0, value, json: json) } ?? false }
        case .object: return false  // The generator never creates objects.
        }
    }

    @Test func `every JSON body decodes to its parameters`() throws {
        var random = RandomParameters(seed: 11)
        let serializer = JSONRequestSerializer()
        for number in 0..<PropertyBudget.rounds(1_000) {
            let tree = random.tree()
            let body = try #require(serializer.request(method: .post, url: exampleURL, parameters: tree).httpBody)
            let object = try JSONResponseSerializer().responseObject(for: nil, data: body)
            if !(object.map { same($0, tree, json: true) } ?? false) {
                Issue.record("tree \(number): \(tree) became \(String(decoding: body, as: UTF8.self))")
                return
            }
        }
    }

    @Test func `every number survives exactly`() throws {
        var generator = SplitMix64(seed: 15)
        let numbers = (0..<10_000).map { _ in Double(bitPattern: generator.next()) }.filter(\.isFinite)
        let body = try JSONRequestSerializer().request(
            method: .post, url: exampleURL, parameters: .array(numbers.map { .double($0) })
        ).httpBody
        #expect(try DecodableResponseSerializer([Double].self).value(for: nil, data: body) == numbers)
    }

    @Test(arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary])
    func `every property list decodes to its parameters`(format: PropertyListSerialization.PropertyListFormat) throws {
        var random = RandomParameters(seed: 12)
        random.allowsNull = false
        random.allowsControlCharacters = false
        let serializer = PropertyListRequestSerializer(format: format)
        for number in 0..<1_000 {
            let tree = random.tree()
            let body = try #require(serializer.request(method: .post, url: exampleURL, parameters: tree).httpBody)
            let object = try PropertyListResponseSerializer().responseObject(for: nil, data: body)
            if !(object.map { same($0, tree, json: false) } ?? false) {
                Issue.record("tree \(number): \(tree)")
                return
            }
        }
    }

    @Test func `every body survives compression`() throws {
        var random = RandomParameters(seed: 13)
        for size in [1, 100, 65_535, 65_536, 65_537, 300_000] {
            for range in [0..<1, 0..<4, 0..<256] {
                let data = Data((0..<size).map { _ in UInt8(truncatingIfNeeded: random.number(range)) })
                #expect(try inflate(#require(try Gzip.compress(data))) == data)
            }
        }
        #expect(try Gzip.compress(Data()) == nil)
    }

    @Test func `every form has its announced length for any division into reads`() throws {
        var random = RandomParameters(seed: 14)
        random.allowsControlCharacters = false
        for _ in 0..<500 {
            let tree = random.tree()
            let request = try HTTPRequestSerializer().multipartFormRequest(url: exampleURL, parameters: tree)
            guard let stream = request.httpBodyStream else { continue }
            let data = try #require(readAll(stream, block: random.number(1..<300)))
            #expect(request.value(forHTTPHeaderField: "Content-Length") == String(data.count))
        }
    }
}
