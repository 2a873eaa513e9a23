import ConvoySerialization
import Foundation

/// The operations that transform one tree into another.
struct JSONDifference {
    private var operations: [JSONPatch.Operation] = []
    /// The length of the operations as JSON, with a comma for each.
    private var length = 0
    private var path: [String] = []

    /// The maximum depth, which bounds the recursion: each level takes a few stack frames.
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
        // A patch that replaces the whole value may be shorter.
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
            oldPlace = oldMatch + 1
            newPlace = newMatch + 1
        }
    }

    /// Returns the pairs of positions of the elements that both arrays have in common, in order.
    private func matches(_ old: ArraySlice<JSON>, _ new: ArraySlice<JSON>) -> [(Int, Int)] {
        if old.count <= 1 && new.count <= 1 || old.isEmpty || new.isEmpty { return [] }
        // Replace the values by numbers, because each value is compared many times.
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

    /// Transforms some elements into others. The preceding elements are final, so indices refer to the new array.
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

    /// Returns the length of the operation as JSON, with a comma.
    private func textLength(of operation: JSONPatch.Operation) -> Int { operation.json.textLength + 1 }
}

extension JSON {
    fileprivate var textLength: Int {
        guard case .bytes(let length) = extent() else { return 0 }
        return length
    }
}

extension JSONPatch {
    /// Creates the patch that transforms one document into another. Its JSON is never longer than that of a patch that
    /// replaces the whole document.
    ///
    /// Members are compared by key, and elements of arrays by a longest common subsequence. Arrays with more than a
    /// thousand differences are compared by position. Values that are equal according to RFC 6902 are not changed, such
    /// as a `1.0` that is now `1`, or members in a different order.
    public init(from old: JSON, to new: JSON) {
        operations = JSONDifference.operations(from: old, to: new)
    }

    /// Creates the patch that transforms the JSON of one value into that of another.
    ///
    /// - Throws: The encoder's error.
    public init<Value: Encodable>(from old: Value, to new: Value, encoder: JSONEncoder = JSONEncoder()) throws {
        self.init(from: try JSON(encoding: old, by: encoder), to: try JSON(encoding: new, by: encoder))
    }
}

/// A search for a longest common subsequence, by the algorithm of E. W. Myers, "An O(ND) Difference Algorithm and Its
/// Variations" (1986).
enum SequenceMatches {
    /// Returns the positions of a longest common subsequence in both arrays; nil if it needs more removals and
    /// insertions than `maximumEdits`. Takes O(elements × edits) time at worst, and O(edits²) memory.
    static func places(_ old: [Int32], _ new: [Int32], maximumEdits: Int) -> [(Int, Int)]? {
        // This array contains the furthest position on each diagonal `old - new`, at the diagonal plus `offset`.
        let offset = min(maximumEdits, old.count + new.count) + 1
        var reached = [Int32](repeating: 0, count: 2 * offset + 1)
        var history: [[Int32]] = []
        for edits in 0..<offset {
            history.append(Array(reached[(offset - edits - 1)...(offset + edits + 1)]))
            for diagonal in stride(from: -edits, through: edits, by: 2) {
                let place = offset + diagonal
                let isInsertion = diagonal == -edits || (diagonal != edits && reached[place - 1] < reached[place + 1])
                var oldIndex = isInsertion ? Int(reached[place + 1]) : Int(reached[place - 1]) + 1
                while oldIndex < old.count, oldIndex - diagonal < new.count, old[oldIndex] == new[oldIndex - diagonal] {
                    oldIndex += 1
                }
                reached[place] = Int32(truncatingIfNeeded: oldIndex)
                if oldIndex >= old.count, oldIndex - diagonal >= new.count {
                    return trace(history, from: (old.count, new.count))
                }
            }
        }
        return nil
    }

    /// Traces the path back through the positions before each edit.
    private static func trace(_ history: [[Int32]], from end: (old: Int, new: Int)) -> [(Int, Int)] {
        var places: [(Int, Int)] = []
        var (old, new) = end
        for (edits, reached) in history.enumerated().reversed() {
            let diagonal = old - new
            let place = diagonal + edits + 1
            var before = (old: 0, new: 0)
            if edits > 0 {
                let isInsertion = diagonal == -edits || (diagonal != edits && reached[place - 1] < reached[place + 1])
                before.old = Int(isInsertion ? reached[place + 1] : reached[place - 1])
                before.new = before.old - (isInsertion ? diagonal + 1 : diagonal - 1)
            }
            while old > before.old, new > before.new {
                old = old - 1
                new = new - 1
                places.append((old, new))
            }
            (old, new) = before
        }
        return places.reversed()
    }
}
