import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySerialization

@Suite struct JSONObjectTests {
    @Test(arguments: [3, 12, 13, 40])
    func `an object behaves like a list of its members`(size: Int) {
        var generator = SplitMix64.printingSeed()
        for _ in 0..<PropertyBudget.rounds(10) {
            var object = JSONObject()
            var list: [(key: String, value: JSON)] = []
            for step in 0..<60 {
                let key = "key \(Int.random(in: 0..<size, using: &generator))"
                let place = list.firstIndex { $0.key == key }
                let value = JSON.number(JSONNumber(step))
                switch Int.random(in: 0...4, using: &generator) {
                case 0:
                    let isNew = object.append(key: key, value: value)
                    #expect(isNew == (place == nil))
                    if place == nil { list.append((key, value)) }
                case 1, 2:
                    object[key] = value
                    if let place { list[place].value = value } else { list.append((key, value)) }
                case 3:
                    let old = object.removeValue(forKey: key)
                    #expect(old == place.map { list[$0].value })
                    if let place { list.remove(at: place) }
                default:
                    // Remove the member, and insert it at another position.
                    guard let place, let position = object.position(of: key) else { continue }
                    #expect(position == place)
                    let member = object.remove(at: position)
                    let entry = list.remove(at: place)
                    let target = Int.random(in: 0...list.count, using: &generator)
                    object.insert(member, at: target)
                    list.insert(entry, at: target)
                }
                #expect(object.members.map(\.key) == list.map(\.key))
                for (index, entry) in list.enumerated() {
                    #expect(object.position(of: entry.key) == index && object[entry.key] == entry.value)
                }
                let nothing = object.removeValue(forKey: "another")
                #expect(object["another"] == nil && nothing == nil)
            }
        }
    }

    @Test func `keys that look alike are different members, in objects of any size`() {
        // All of these are equal as `String` and have the same hash.
        let marks = ["\u{301}", "\u{327}", "\u{323}", "\u{31B}"]
        var keys = ["a"]
        for mark in marks { keys = keys.flatMap { key in (0...key.unicodeScalars.count - 1).map { insert(mark, key, $0) } } }
        #expect(Set(keys).count == 1 && keys.count == 24)
        var object = JSONObject()
        for (index, key) in keys.enumerated() { object.append(key: key, value: .number(JSONNumber(index))) }
        #expect(object.members.count == 24)
        for (index, key) in keys.enumerated() { #expect(object[key] == .number(JSONNumber(index))) }
        #expect(object[keys[3].precomposedStringWithCanonicalMapping] == nil)
    }

    private func insert(_ mark: String, _ key: String, _ place: Int) -> String {
        var scalars = Array(key.unicodeScalars)
        scalars.insert(contentsOf: mark.unicodeScalars, at: place + 1)
        return String(String.UnicodeScalarView(scalars))
    }

    @Test func `trees can be written as literals`() throws {
        let tree: JSON = ["a": [1, 2.5, "x", true, nil], "b": ["c": [:]], "a": -7]
        #expect(tree.description == #"{"a":-7,"b":{"c":{}}}"#)
        let text: JSON = "\(1 + 1) and \("é")"
        #expect(text == "2 and é")
    }

    @Test func `the extent of a tree is the length of its text, or the exceeded limit`() throws {
        for text in [
            "null", "true", "false", "-1.50e7", #""é\"\\\n\u0001😀""#, "[]", "{}", #"[1,[2,"x"],{}]"#,
            #"{"a\"":1,"b":[null]}"#,
        ] {
            let tree = try JSON(parsing: bytes(text))
            let length = tree.description.utf8.count
            #expect(tree.extent() == .bytes(length), "\(text)")
            #expect(tree.extent(maximumLength: length) == .bytes(length))
            #expect(tree.extent(maximumLength: length - 1) == .tooLong)
        }
        let deep = try JSON(parsing: bytes("[[[]]]"))
        #expect(deep.extent(maximumDepth: 3) == .bytes(6) && deep.extent(maximumDepth: 2) == .tooDeep)
        #expect(JSON.null.extent(maximumDepth: 0) == .bytes(4) && JSON.array([]).extent(maximumDepth: 0) == .tooDeep)
    }
}
