/// One change of the library that the tests should detect.
struct Mutant: Codable {
    enum Shape: String, Codable {
        /// An expression that is replaced by another of the same type.
        case expression
        /// A statement that is removed or replaced by another.
        case statement
        /// A failing condition that is inserted before conditions that bind values.
        case condition
    }

    /// The index among all mutants of the sources, starting at 1.
    var number = 0
    /// The index among the mutants that are built into the program, starting at 1.
    var slot = 0
    /// The path of the file, relative to the package.
    let file: String
    var line: Int
    var column: Int
    /// The text of its line and the number of equal lines before it, which locate the mutant after the sources have
    /// changed.
    let context: String
    var occurrence = 0
    /// A short description of the change.
    let change: String
    let shape: Shape
    /// The range of bytes in the file that is replaced.
    var start: Int
    var end: Int
    let original: String
    let replacement: String
    /// The lines of the built file that contain the mutant, which identify it in the compiler's errors.
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
