import ConvoySerialization

/// The operations that make one tree of another.
struct JSONDifference {
    private var operations: [JSONPatch.Operation] = []
    /// How long the text of the operations is, with a comma for each.
    private var length = 0
    private var path: [String] = []

    /// Each level takes a few stack frames.
    private static let maximumDepth = 512
    private static let maximumEdits = 1000

    static func operations(from old: JSON, to new: JSON) -> [JSONPatch.Operation] {
        if [old, new].contains(where: { $0.extent(maximumDepth: maximumDepth) == .tooDeep }) {
            return [.replace(path: JSONPointer(), value: new)]
        }
        var difference = JSONDifference()
        difference.compare(old, new)
        return difference.operations
    }

    private mutating func compare(_ old: JSON, _ new: JSON) {
        let (count, start) = (operations.count, length)
        switch (old, new) {
        case (.array(let old), .array(let new)): compare(old, new)
        case (.object(let old), .object(let new)): compare(old, new)
        default:
            if old != new { append(.replace(path: pointer, value: new)) }
            return
        }
        if operations.count == count { return }
        // Replacing the value as a whole may be shorter.
        let whole = JSONPatch.Operation.replace(path: pointer, value: .null)
        let room = length - start - textLength(of: whole)
        guard case .bytes(let valueLength) = new.extent(maximumLength: room + JSON.null.textLength), valueLength <= room + 4
        else { return }
        operations.removeLast(operations.count - count)
        length = start
        append(.replace(path: pointer, value: new))
    }

    private mutating func compare(_ old: JSONObject, _ new: JSONObject) {
        for member in old.members where new.position(of: member.key) == nil {
            append(.remove(path: pointer(member.key)))
        }
        for member in new.members {
            if let value = old[member.key] {
                descend(member.key, value, member.value)
            } else {
                append(.add(path: pointer(member.key), value: member.value))
            }
        }
    }

    private mutating func compare(_ old: [JSON], _ new: [JSON]) {
        let common = min(old.count, new.count)
        var start = 0
        while start < common, old[start] == new[start] { start += 1 }
        var end = 0
        while end < common - start, old[old.count - 1 - end] == new[new.count - 1 - end] { end += 1 }
        let (oldMiddle, newMiddle) = (old[start..<(old.count - end)], new[start..<(new.count - end)])
        var (oldPlace, newPlace) = (start, start)
        for (oldMatch, newMatch) in matches(oldMiddle, newMiddle) + [(oldMiddle.endIndex, newMiddle.endIndex)] {
            replace(old[oldPlace..<oldMatch], by: new[newPlace..<newMatch])
            (oldPlace, newPlace) = (oldMatch + 1, newMatch + 1)
        }
    }

    /// The places of elements that both have, in order.
    private func matches(_ old: ArraySlice<JSON>, _ new: ArraySlice<JSON>) -> [(Int, Int)] {
        if old.count <= 1 && new.count <= 1 || old.isEmpty || new.isEmpty { return [] }
        // Numbers in place of the values, as each is compared often.
        var numbers: [JSON: Int32] = [:]
        func number(_ value: JSON) -> Int32 {
            let next = Int32(truncatingIfNeeded: numbers.count)
            return { known in
                if known == nil { known = next }
                return known ?? next
            }(&numbers[value])
        }
        let places = SequenceMatches.places(
            old.map(number), new.map(number), maximumEdits: Self.maximumEdits)
        return (places ?? []).map { ($0 + old.startIndex, $1 + new.startIndex) }
    }

    /// Makes some elements of others. Those before are as they shall be, so the places are those of the new array.
    private mutating func replace(_ old: ArraySlice<JSON>, by new: ArraySlice<JSON>) {
        for (value, (index, other)) in zip(old, zip(new.indices, new)) { descend(String(index), value, other) }
        let end = new.startIndex + min(old.count, new.count)
        for _ in 0..<max(0, old.count - new.count) { append(.remove(path: pointer(String(end)))) }
        for (index, value) in zip(new.indices, new).dropFirst(old.count) {
            append(.add(path: pointer(String(index)), value: value))
        }
    }

    private mutating func descend(_ token: String, _ old: JSON, _ new: JSON) {
        path.append(token)
        compare(old, new)
        path.removeLast()
    }

    // MARK: Operations

    private var pointer: JSONPointer { JSONPointer(tokens: path) }

    private func pointer(_ token: String) -> JSONPointer { JSONPointer(tokens: path + [token]) }

    private mutating func append(_ operation: JSONPatch.Operation) {
        operations.append(operation)
        length += textLength(of: operation)
    }

    /// The length of the text, and of a comma.
    private func textLength(of operation: JSONPatch.Operation) -> Int { operation.json.textLength + 1 }
}

extension JSON {
    fileprivate var textLength: Int {
        guard case .bytes(let length) = extent() else { return 0 }
        return length
    }
}
