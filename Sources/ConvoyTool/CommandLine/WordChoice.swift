/// Words of which one is to be chosen.
enum WordChoice {
    /// "a, b or c".
    static func text(_ words: [String]) -> String {
        guard let last = words.last, words.count > 1 else { return words.first ?? "" }
        return "\(words.dropLast().joined(separator: ", ")) or \(last)"
    }
}
