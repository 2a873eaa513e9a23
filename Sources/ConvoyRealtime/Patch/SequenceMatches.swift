/// What two sequences have in common, by the algorithm of E. W. Myers, "An O(ND) Difference Algorithm and Its Variations"
/// (1986).
enum SequenceMatches {
    /// The places of a longest common subsequence in both; nil if more elements must be removed and inserted than allowed.
    /// It takes time in proportion to the elements and, at worst, to each element and edit, and memory of the square of
    /// the edits.
    static func places(_ old: [Int32], _ new: [Int32], maximumEdits: Int) -> [(Int, Int)]? {
        // How far each diagonal `old - new` has been followed, by its number plus the offset.
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

    /// The way back through what had been reached before each edit.
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
                (old, new) = (old - 1, new - 1)
                places.append((old, new))
            }
            (old, new) = before
        }
        return places.reversed()
    }
}
