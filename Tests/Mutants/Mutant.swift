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

    /// The place among all mutants of the sources that it was drawn from, from 1 on.
    var number = 0
    /// The place among the mutants that are built into the program, from 1 on.
    var slot = 0
    /// The file below the package's folder.
    let file: String
    var line: Int
    var column: Int
    /// What its line says, and how many like it are before it in its file: that finds it when the sources have changed.
    let context: String
    var occurrence = 0
    /// What is changed, in a word or two.
    let change: String
    let shape: Shape
    /// The bytes of the file that are replaced.
    var start: Int
    var end: Int
    let original: String
    let replacement: String
    /// The lines of the built file that hold it, which identify the cause of the compiler's errors.
    var builtLines: [Int] = []

    /// Its identity, independent of its position in the file.
    var identity: [String] { [file, context, change, original, replacement, "\(occurrence)"] }

    var title: String { "\(number) \(file):\(line):\(column) \(change): \(short(original)) -> \(short(replacement))" }

    private func short(_ text: String) -> String {
        let words = text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        if words.isEmpty { return "nothing" }
        return words.count > 70 ? words.prefix(67) + "..." : words
    }
}
