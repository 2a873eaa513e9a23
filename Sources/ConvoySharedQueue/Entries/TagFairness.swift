/// The distribution of claims among tags, in proportion to their weights: stride scheduling. A pure value.
struct TagFairness {
    /// The entries claimed for each tag that has ready entries, divided by its weight.
    private var passes: [String: Double] = [:]
    private var weights: [String: Double] = [:]

    /// Returns the number of entries to claim for each tag, without tags that get none.
    ///
    /// - Parameters:
    ///   - tags: The tags with ready entries. A tag that had none does not make up for that time.
    ///   - limit: The number of entries to distribute.
    ///   - weights: The weights of tags; 1 for others.
    ///   - most: The maximum numbers of entries by tag.
    mutating func quotas(
        of tags: Set<String>, _ limit: Int, _ weights: [String: Double], most: [String: Int]
    ) -> [String: Int] {
        let first = passes.filter { tags.contains($0.key) }.values.min() ?? 0
        // Count from the smallest value, so that numbers stay small.
        passes = tags.reduce(into: [:]) { $0[$1] = max(0, (passes[$1] ?? first) - first) }
        self.weights = tags.reduce(into: [:]) { $0[$1] = Self.weight(weights[$1] ?? 1) }
        var quotas: [String: Int] = [:]
        var open = tags.filter { most[$0] ?? .max > 0 }.sorted()
        for _ in 0..<max(0, limit) {
            guard let index = open.indices.min(by: { pass(open[$0]) < pass(open[$1]) }) else { break }
            let tag = open[index]
            passes[tag, default: 0] += stride(tag)
            quotas[tag, default: 0] += 1
            if quotas[tag] == most[tag] ?? .max { open.remove(at: index) }
        }
        return quotas
    }

    /// Corrects the shares by the numbers of entries that were not claimed.
    mutating func giveBack(_ quotas: [String: Int]) {
        for (tag, count) in quotas where count > 0 { passes[tag, default: 0] -= Double(count) * stride(tag) }
    }

    private func pass(_ tag: String) -> Double { passes[tag] ?? 0 }
    private func stride(_ tag: String) -> Double { 1 / (weights[tag] ?? 1) }

    /// Returns a weight within limits that keep the arithmetic exact enough.
    private static func weight(_ weight: Double) -> Double { weight > 0 ? min(max(weight, 0.001), 1000) : 0.001 }
}
