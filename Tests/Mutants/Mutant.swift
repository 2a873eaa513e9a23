/// One change of the library, which the tests should notice.
struct Mutant: Codable {
    enum Shape: String, Codable {
        /// An expression that is replaced by another of the same type.
        case expression
        /// A statement that is replaced by another, or by none.
        case statement
        /// A condition that fails, put before those that bind.
        case condition
    }

    /// The place among all mutants of the sources, from 1 on. It stays as long as the sources do.
    var number = 0
    /// The place among the mutants that are built into the program, from 1 on.
    var slot = 0
    /// The file below the package's folder.
    let file: String
    let line: Int
    let column: Int
    /// What is changed, in a word or two.
    let change: String
    let shape: Shape
    /// The bytes of the file that are replaced.
    let start: Int
    let end: Int
    let original: String
    let replacement: String
    /// The lines of the built file that hold it, which tell who is to blame for the compiler's errors.
    var builtLines: [Int] = []

    var title: String { "\(number) \(file):\(line):\(column) \(change): \(short(original)) -> \(short(replacement))" }

    private func short(_ text: String) -> String {
        let words = text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        if words.isEmpty { return "nothing" }
        return words.count > 70 ? words.prefix(67) + "..." : words
    }
}
