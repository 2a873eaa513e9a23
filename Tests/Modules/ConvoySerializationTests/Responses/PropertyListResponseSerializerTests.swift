import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct PropertyListResponseSerializerTests {
    private let serializer = PropertyListResponseSerializer()

    private func parse(_ data: Data?, status: Int = 200) throws -> Any? {
        try serializer.responseObject(for: response(status, type: "application/x-plist"), data: data)
    }

    private func big(_ value: Int, _ size: Int) -> [UInt8] {
        (0..<size).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
    }

    /// Returns a binary list with the given object bytes. The first object is the root. Additional table entries can
    /// refer to the last object.
    private func binary(_ objects: [[UInt8]], aliasesOfLast aliases: Int = 0, referenceSize: UInt8 = 2) -> Data {
        var bytes = Array("bplist00".utf8)
        var offsets: [UInt8] = []
        for (index, object) in objects.enumerated() {
            for _ in 0...(index == objects.count - 1 ? aliases : 0) { offsets += big(bytes.count, 4) }
            bytes += object
        }
        let table = bytes.count
        bytes += offsets + [0, 0, 0, 0, 0, 0, 4, referenceSize]
        return Data(bytes + big(objects.count + aliases, 8) + big(0, 8) + big(table, 8))
    }

    @Test func `both formats are parsed`() throws {
        for format in [PropertyListSerialization.PropertyListFormat.xml, .binary] {
            let data = try PropertyListSerialization.data(
                fromPropertyList: ["a": [1, "é"] as [Any], "d": Data([1])] as [String: Any], format: format,
                options: 0)
            let object = try #require(try parse(data) as? [String: Any])
            #expect((object["a"] as? [Any])?.last as? String == "é")
            #expect(object["d"] as? Data == Data([1]))
        }
    }

    @Test func `a response without content succeeds without an object`() throws {
        #expect(try parse(nil) == nil)
        #expect(try parse(Data()) == nil)
        #expect(try parse(bytes(" ")) == nil)
        #expect(try parse(bytes("junk"), status: 204) == nil)
    }

    @Test(arguments: [
        bytes("<"), bytes("<plist>"), bytes("{a="), bytes("bplist00"),
        bytes("bplist00" + String(repeating: "x", count: 60)),
    ])
    func `malformed input is an error`(data: Data) {
        let error = failure { try parse(data) }
        #expect(error?.domain == NSCocoaErrorDomain)
        #expect(error?.code == 3840)
    }

    @Test func `a truncated binary list is rejected`() throws {
        let whole = try PropertyListSerialization.data(
            fromPropertyList: ["key": Array(0..<50)], format: .binary, options: 0)
        for length in stride(from: 8, to: whole.count, by: 7) {
            #expect(failure { try parse(whole.prefix(length)) } != nil)
        }
    }

    @Test(
        arguments: [
            [[0xC1, 0, 1], [0xA0]], [[0xA1, 0, 1], [0x00]], [[0xA1, 0, 1], [0x80, 1]], [[0xD1, 0, 1, 0, 1], [0xA0]],
            [[0xA1, 0, 9]], [[0xAF]], [[0xAF, 0x13, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]],
            [[0xDF, 0x10, 0xFF]],
        ] as [[[UInt8]]])
    func `sets, nulls, references, invalid keys and missing objects are errors, not crashes`(
        objects: [[UInt8]]
    ) {
        #expect(failure { try parse(binary(objects)) }?.code == 3840)
    }

    @Test func `a list that would expand without limit is an immediate error`() {
        var levels: [[UInt8]] = []
        for level in 1...12 as ClosedRange<UInt8> {
            levels.append([0xAA] + Array(repeating: [0, level], count: 10).joined())
        }
        let bomb = binary(levels + [[0xA0]])
        #expect(bomb.count < 400)
        let error = failure { try parse(bomb) }
        #expect(error?.code == NSURLErrorDataLengthExceedsMaximum)
        #expect(limit(error) == .expansion)
    }

    @Test func `a shared array counts for each object that contains it`() {
        // The root refers to 100,000 objects, which are all the same array of 100,000 references to true.
        let count = 100_000
        func array(_ references: [UInt8]) -> [UInt8] { [0xAF, 0x12] + big(count, 4) + references }
        let root = array((2...(count + 1)).flatMap { big($0, 3) })
        let shared = array([UInt8](repeatElement([0, 0, 1], count: count).joined()))
        let list = binary([root, [0x09], shared], aliasesOfLast: count - 1, referenceSize: 3)
        let start = ContinuousClock.now
        #expect(limit(failure { try parse(list) }) == .expansion)
        // Measures real time: following 10,000,000,000 references would take minutes.
        #expect(ContinuousClock.now - start < .seconds(30))
    }

    @Test(arguments: [0x4F, 0x5F] as [UInt8])
    func `repeated data and text count by their length`(marker: UInt8) {
        // Foundation copies the data for every reference, which takes five seconds for 100 MB.
        let array = [0xAF, 0x12] + big(1_000, 4) + repeatElement([0, 1], count: 1_000).joined()
        let long = [marker, 0x12] + big(100_000, 4) + [UInt8](repeating: 65, count: 100_000)
        #expect(limit(failure { try parse(binary([array, long])) }) == .expansion)
    }

    @Test func `a list that repeats small values often is parsed`() throws {
        // The list has 50,000 dictionaries with the same key and value.
        let root = [0xAF, 0x12] + big(50_000, 4) + repeatElement([0, 1], count: 50_000).joined()
        let key = Array("a key of some thirty letters, say".utf8)
        let list = binary([root, [0xD1, 0, 2, 0, 3], [0x5F, 0x10, UInt8(key.count)] + key, [0x10, 7]])
        let object = try #require(try parse(list) as? [[String: Int]])
        #expect(object.count == 50_000 && object.last?.values.first == 7)
    }

    @Test func `recursive and too deeply nested lists are rejected`() {
        #expect(limit(failure { try parse(binary([[0xA1, 0, 0]])) }) == .nestingDepth)
        var deep: [[UInt8]] = []
        for next in 1...2000 as ClosedRange<UInt16> { deep.append([0xA1, UInt8(next >> 8), UInt8(next & 0xFF)]) }
        deep.append([0xA0])
        #expect(limit(failure { try parse(binary(deep)) }) == .nestingDepth)
        let xml = "<plist>" + String(repeating: "<array>", count: 200_000)
        #expect(failure { try parse(bytes(xml)) } != nil)
    }

    @Test func `an error contains the parsed body of the response`() throws {
        let error = failure { try parse(bytes("<plist><string>sorry</string></plist>"), status: 500) }
        #expect(error?.code == -1011)
        #expect(error?.serializedResponseObject as? String == "sorry")
    }
}
