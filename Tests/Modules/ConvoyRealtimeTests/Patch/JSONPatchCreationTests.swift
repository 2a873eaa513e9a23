import ConvoyRealtime
import ConvoySerialization
import ConvoyTestSupport
import Foundation
import Testing

@Suite struct JSONPatchCreationTests {
    @Test func `the patch between two documents is correct and no longer than a replacement`() throws {
        var generator = SplitMix64.printingSeed()
        var (shorter, empty) = (0, 0)
        let rounds = PropertyBudget.rounds(400)
        for round in 0..<rounds {
            let old = JSON.random(&generator)
            var new = old
            if round % 3 == 0 { new = .random(&generator) } else { for _ in 0...2 { new = new.changed(&generator) } }
            let patch = JSONPatch(from: old, to: new)
            let result = try old.applying(patch)
            #expect(result == new, "round \(round): \(old) to \(new) by \(patch)")
            let whole: JSONPatch = [.replace(path: [], value: new)]
            let (length, wholeLength) = (patch.description.utf8.count, whole.description.utf8.count)
            #expect(length <= wholeLength, "round \(round): \(old) to \(new) by \(patch)")
            #expect((old == new) == patch.operations.isEmpty)
            // The patch is unchanged after it has been sent.
            #expect(try JSONPatch(parsing: patch.httpBody()) == patch)
            if length < wholeLength { shorter += 1 }
            if patch.operations.isEmpty { empty += 1 }
        }
        print("shorter than the whole: \(shorter), empty: \(empty)")
        #expect(shorter > rounds / 5)
    }

    @Test func `a failed patch leaves generated documents unchanged`() throws {
        var generator = SplitMix64.printingSeed()
        for round in 0..<PropertyBudget.rounds(200) {
            let document = JSON.random(&generator)
            var patch = JSONPatch(from: document, to: document.changed(&generator))
            var copy = document
            for _ in 0..<6 {
                let places = copy.pointers()
                guard let path = places.randomElement(using: &generator), let from = places.randomElement(using: &generator)
                else { continue }
                let operation: JSONPatch.Operation =
                    switch Int.random(in: 0...4, using: &generator) {
                    case 0: .remove(path: path)
                    case 1: .add(path: path, value: .random(&generator, depth: 3))
                    case 2: .move(from: from, path: path)
                    case 3: .copy(from: from, path: path)
                    default: .replace(path: path, value: .random(&generator, depth: 3))
                    }
                patch.operations.append(operation)
                if failure(of: [operation], on: copy) == nil { copy = (try? copy.applying([operation])) ?? copy }
            }
            patch.operations.append(.test(path: ["\u{0} is not there"], value: 1))
            #expect(failure(of: patch, on: document) != nil, "round \(round): \(document), \(patch)")
        }
    }

    @Test(arguments: [
        ("[1,2,3,4,5,6,7,8,9]", "[1,2,3,5,6,7,8,9]", #"[{"op":"remove","path":"/3"}]"#),
        (
            "[11111,22222,33333,44444,55555]", "[11111,22222,\"new\",33333,44444,55555]",
            #"[{"op":"add","path":"/2","value":"new"}]"#
        ),
        (
            #"[{"id":1,"text":"the first"},{"id":2,"text":"the second one"}]"#,
            #"[{"id":1,"text":"the first"},{"id":2,"text":"another"}]"#,
            #"[{"op":"replace","path":"/1/text","value":"another"}]"#
        ),
        (
            #"{"a":{"b":"a text of some length"},"c":1}"#, #"{"a":{"b":"a text of some length","d":2}}"#,
            #"[{"op":"remove","path":"/c"},{"op":"add","path":"/a/d","value":2}]"#
        ),
        ("[1,2]", "[2,1]", #"[{"op":"replace","path":"","value":[2,1]}]"#),
        (#"{"a":1}"#, "[]", #"[{"op":"replace","path":"","value":[]}]"#),
        (#"{"a":1,"b":[1.0]}"#, #"{"b":[1],"a":1e0}"#, "[]"),
    ])
    func `created patches are as short as handwritten ones`(old: String, new: String, text: String) throws {
        let (oldTree, newTree) = (try json(old), try json(new))
        let patch = JSONPatch(from: oldTree, to: newTree)
        let whole: JSONPatch = [.replace(path: [], value: newTree)]
        let shortest = text.utf8.count <= whole.description.utf8.count ? text : whole.description
        #expect(patch.description == shortest)
    }

    @Test func `large arrays are compared within a minute`() throws {
        var generator = SplitMix64.printingSeed()
        let rows = (0..<10_000).map { JSON.object(JSONObject([("id", .number(JSONNumber($0))), ("name", "row \($0)")])) }
        // Few differences must result in few operations.
        var some = rows
        for _ in 0..<100 {
            some.remove(at: .random(in: some.indices, using: &generator))
            some.insert("new", at: .random(in: 0...some.count, using: &generator))
        }
        var start = ContinuousClock.now
        let small = JSONPatch(from: .array(rows), to: .array(some))
        print("100 changes in 10,000 rows: \(ContinuousClock.now - start), \(small.operations.count) operations")
        // The time is measured in real time, because comparing each row with every other one would take minutes.
        #expect(ContinuousClock.now - start < .seconds(60))
        #expect((100...200).contains(small.operations.count))
        #expect(try JSON.array(rows).applying(small) == .array(some))
        // All rows of this document differ.
        let others = rows.shuffled(using: &generator)
        start = .now
        let large = JSONPatch(from: .array(rows), to: .array(others))
        print("10,000 rows shuffled: \(ContinuousClock.now - start), \(large.operations.count) operations")
        #expect(ContinuousClock.now - start < .seconds(60))
        #expect(try JSON.array(rows).applying(large) == .array(others))
    }

    @Test func `a merge patch can be created unless the new document contains null`() throws {
        var generator = SplitMix64.printingSeed()
        var made = 0
        let rounds = PropertyBudget.rounds(400)
        for round in 0..<rounds {
            let old = JSON.random(&generator)
            let new = round % 3 == 0 ? .random(&generator) : old.changed(&generator)
            guard let patch = JSONMergePatch(from: old, to: new) else {
                #expect(hasNullMember(new), "round \(round): \(old) to \(new)")
                continue
            }
            made += 1
            #expect(old.applying(patch) == new, "round \(round): \(old) to \(new) by \(patch)")
        }
        #expect(made > rounds / 2)
    }

    private func hasNullMember(_ value: JSON) -> Bool {
        guard case .object(let object) = value else { return false }
        return object.members.contains { $0.value == .null || hasNullMember($0.value) }
    }
}

extension JSONObject {
    fileprivate init(_ members: [(String, JSON)]) {
        self.init()
        for (key, value) in members { append(key: key, value: value) }
    }
}
