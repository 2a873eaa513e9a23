/// Suggestions of known names for an unknown name.
package enum Suggestion {
    /// Returns ` (did you mean "…"?)` with the most similar name, or an empty string if none is similar.
    static func text(for name: String, among known: some Sequence<String>) -> String {
        nearest(to: name, among: known).map { " (did you mean \"\($0)\"?)" } ?? ""
    }

    /// Returns the most similar name, or nil if none is similar.
    package static func nearest(to name: String, among known: some Sequence<String>) -> String? {
        let limit = max(1, name.count / 3)
        return known.map { ($0, distance(name.lowercased(), $0.lowercased())) }
            .filter { $0.1 <= limit }.min { ($0.1, $0.0) < ($1.1, $1.0) }?.0
    }

    /// Returns the number of characters that must be changed, added, removed or swapped with their neighbour.
    private static func distance(_ one: String, _ other: String) -> Int {
        let (one, other) = (Array(one.prefix(64)), Array(other.prefix(64)))
        var before: [Int] = [], last = Array(0...other.count)
        for i in one.indices {
            var row = [i + 1]
            for j in other.indices {
                var best = min(row[j] + 1, last[j + 1] + 1, last[j] + (one[i] == other[j] ? 0 : 1))
                if i > 0, j > 0, one[i] == other[j - 1], one[i - 1] == other[j] { best = min(best, before[j - 1] + 1) }
                row.append(best)
            }
            before = last
            last = row
        }
        return last[other.count]
    }
}
