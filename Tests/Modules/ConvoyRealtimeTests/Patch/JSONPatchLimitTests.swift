import ConvoyRealtime
import ConvoySerialization
import ConvoyTestSupport
import Foundation
import Testing

/// Patches that would exhaust the memory or the stack, or take too long.
@Suite struct JSONPatchLimitTests {
    @Test func `operations fail with a short error for a pointer of 200,000 tokens`() throws {
        let pointer = String(repeating: "/a", count: 200_000)
        for operation in [
            "{\"op\":\"add\",\"path\":\"\(pointer)\",\"value\":1}", "{\"op\":\"remove\",\"path\":\"\(pointer)\"}",
            "{\"op\":\"test\",\"path\":\"\(pointer)\",\"value\":1}",
            "{\"op\":\"move\",\"from\":\"\",\"path\":\"\(pointer)\"}",
            "{\"op\":\"copy\",\"from\":\"\(pointer)\",\"path\":\"\"}",
        ] {
            let error = try #require(failure(of: try patch("[\(operation)]"), on: ["a": ["a": [1]]]))
            #expect(error.description.utf8.count < 400, "\(error)")
        }
    }

    @Test func `parsing a patch that is nested too deeply fails with a syntax error`() throws {
        for depth in [511, 100_000, 1_000_000] {
            let value = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            #expect(throws: JSONSyntaxError.self) { try patch("[{\"op\":\"add\",\"path\":\"\",\"value\":\(value)}]") }
        }
        #expect(throws: JSONSyntaxError.self) { try patch(String(repeating: "[", count: 100_000)) }
    }

    @Test func `no operation can make a document deeper than the limit`() throws {
        let deep = try json(String(repeating: "[", count: 500) + String(repeating: "]", count: 500))
        let path = JSONPointer(tokens: Array(repeating: "a", count: 12))
        var document: JSON = ["deep": deep, "a": [:]]
        for count in 2...13 {
            let path = JSONPointer(tokens: Array(repeating: "a", count: count))
            try JSONPatch(operations: [.add(path: path, value: [:])]).apply(to: &document)
        }
        try JSONPatch(operations: [.copy(from: ["deep"], path: path)]).apply(to: &document)
        let below = path.appending("a")
        try JSONPatch(operations: [.replace(path: path, value: [:])]).apply(to: &document)
        for operation: JSONPatch.Operation in [
            .add(path: below, value: deep), .copy(from: ["deep"], path: below), .move(from: ["deep"], path: below),
            .replace(path: path, value: [deep]),
        ] {
            let error = try #require(failure(of: [operation], on: document))
            #expect(error.reason == .tooDeep(maximumDepth: 512), "\(operation.name)")
        }
        #expect(failure(of: [.add(path: below, value: deep)], on: document, limits: .init(maximumDepth: 513)) == nil)
    }

    @Test func `repeated operations cannot make a document deeper than the limit`() throws {
        var patch = JSONPatch()
        for _ in 0..<100_000 { patch.operations.append(.copy(from: [], path: ["a"])) }
        let error = try #require(failure(of: patch, on: ["a": 1]))
        #expect(error.reason == .tooDeep(maximumDepth: 512) && error.operationIndex == 511)
        patch = JSONPatch()
        for _ in 0..<100_000 {
            patch.operations += [
                .add(path: ["b"], value: [:]), .move(from: ["a"], path: ["b", "a"]), .move(from: ["b"], path: ["a"]),
            ]
        }
        #expect(failure(of: patch, on: ["a": 1])?.reason == .tooDeep(maximumDepth: 512))
    }

    @Test func `repeated copies cannot exhaust the memory`() throws {
        var patch = JSONPatch()
        for _ in 0..<60 { patch.operations.append(.copy(from: [], path: ["-"])) }
        #expect(JSONPatch.Limits.standard.maximumCopiedLength == 64 << 20)
        let error = try #require(failure(of: patch, on: ["some text"], limits: .init(maximumCopiedLength: 4 << 20)))
        #expect(error.reason == .tooLarge(maximumCopiedLength: 4 << 20) && error.operationIndex == 18)
        #expect(
            failure(of: patch, on: ["some text"], limits: .init(maximumCopiedLength: 1000))?.reason
                == .tooLarge(maximumCopiedLength: 1000))
        let few = JSONPatch(operations: Array(patch.operations.prefix(3)))
        #expect(failure(of: few, on: ["some text"], limits: .init(maximumCopiedLength: 1000)) == nil)
        #expect(failure(of: few, on: ["some text"], limits: .init(maximumCopiedLength: 0)) != nil)
    }

    @Test func `a merge patch as deep as the parser allows can be applied`() throws {
        let text = String(repeating: #"{"a":"#, count: 512) + "1" + String(repeating: "}", count: 512)
        var document: JSON = ["b": 1]
        try JSONMergePatch(parsing: Data(text.utf8)).apply(to: &document)
        #expect(document.description.utf8.count == text.utf8.count + 6)
        #expect(throws: JSONSyntaxError.self) {
            try JSONMergePatch(parsing: Data(String(repeating: #"{"a":"#, count: 100_000).utf8))
        }
    }

    @Test func `a value of 100,000 levels is rejected without recursion`() throws {
        var value: JSON = []
        for _ in 0..<100_000 { value = .array([value]) }
        #expect(failure(of: [.add(path: ["a"], value: value)], on: [:])?.reason == .tooDeep(maximumDepth: 512))
        #expect(failure(of: [.replace(path: [], value: value)], on: [:])?.reason == .tooDeep(maximumDepth: 512))
        #expect(JSONPatch(from: [:], to: value).operations.count == 1)
        // Free the value level by level, because freeing it at once would take a stack frame per level.
        while case .array(let elements) = value, let element = elements.first { value = element }
    }

    // MARK: Time

    /// Applies a patch, and returns the time in seconds.
    private func seconds(_ patch: JSONPatch, _ document: inout JSON) throws -> Double {
        let start = ContinuousClock.now
        try patch.apply(to: &document)
        let time = ContinuousClock.now - start
        return Double(time.components.seconds) + Double(time.components.attoseconds) / 1e18
    }

    @Test func `10,000 operations on an array of 100,000 elements are fast`() throws {
        var document: JSON = ["rows": .array((0..<100_000).map { ["id": .number(JSONNumber($0)), "name": "row"] })]
        var patch = JSONPatch()
        for index in 0..<10_000 {
            switch index % 5 {
            case 0: patch.operations.append(.replace(path: ["rows", String(index * 7), "name"], value: "other"))
            case 1: patch.operations.append(.add(path: ["rows", "-"], value: ["id": 0, "name": "new"]))
            case 2: patch.operations.append(.test(path: ["rows", String(index), "id"], value: .number(JSONNumber(index))))
            case 3: patch.operations.append(.add(path: ["rows", String(index), "more"], value: [1, 2, 3]))
            default: patch.operations.append(.copy(from: ["rows", "7", "id"], path: ["rows", "9", "id"]))
            }
        }
        patch.operations.append(.test(path: ["rows", "9", "id"], value: 7))
        let time = try seconds(patch, &document)
        print("10,000 operations on an array of 100,000: \(time) s")
        // The time is measured in real time, because 10,000 copies of the array would take minutes.
        #expect(time < 30)
        // Apply the same patch with a failing last operation, so that all others are undone.
        patch.operations[9_999] = .test(path: [], value: nil)
        let start = ContinuousClock.now
        #expect(throws: JSONPatchError.self) { try patch.apply(to: &document) }
        #expect(ContinuousClock.now - start < .seconds(30))
        #expect(document[["rows", "0", "name"]] == "other")
    }

    @Test func `10,000 operations on an object with 100,000 members are fast`() throws {
        var object = JSONObject()
        for index in 0..<100_000 { object.append(key: "key \(index)", value: .number(JSONNumber(index))) }
        var document = JSON.object(object)
        object = JSONObject()
        var patch = JSONPatch()
        for index in 0..<10_000 {
            switch index % 4 {
            case 0: patch.operations.append(.replace(path: ["key \(index * 3)"], value: "other"))
            case 1: patch.operations.append(.add(path: ["new \(index)"], value: 1))
            case 2: patch.operations.append(.remove(path: ["key \(99_999 - index)"]))
            default: patch.operations.append(.move(from: ["key \(index * 5)"], path: ["moved \(index)"]))
            }
        }
        let time = try seconds(patch, &document)
        print("10,000 operations on an object of 100,000: \(time) s")
        #expect(time < 8)
        #expect(document[["key 0"]] == "other" && document[["moved 3"]] == 15)
        #expect(document[["key 15"]] == nil && document[["key 99999"]] == 99_999)
    }

    @Test func `the cost of a small change does not depend on the size of the document`() throws {
        var document: JSON = ["rows": .array((0..<1_000_000).map { .number(JSONNumber($0)) })]
        let patch: JSONPatch = [.replace(path: ["rows", "500000"], value: "x")]
        var total = 0.0
        for _ in 0..<1_000 { total += try seconds(patch, &document) }
        print("1,000 patches of a document of 1,000,000 values: \(total) s")
        // A copy of the array takes about a millisecond.
        #expect(total < 0.5)
    }
}
