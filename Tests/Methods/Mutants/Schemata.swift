import Foundation

/// Writes files in which each mutant is guarded by a condition that selects the mutant to try.
enum Schemata {
    /// The module that declares the condition. All mutated modules depend on it.
    static let module = "ConvoySupport"

    /// Returns a file with its mutants, and the mutants with their line numbers in it.
    static func write(_ mutants: [Mutant], into text: String) -> (text: String, mutants: [Mutant]) {
        let source = Array(text.utf8)
        // An outer mutant precedes the mutants in it, and an inserted condition precedes the following one.
        let sorted = mutants.sorted {
            ($0.start, $0.shape == .condition ? 0 : 1, $1.end, $0.slot) < (
                $1.start, $1.shape == .condition ? 0 : 1, $0.end, $1.slot
            )
        }
        var written = render(0..<source.count, of: source, with: sorted[...])
        written = importing(written)
        var placed: [Mutant] = []
        for var mutant in sorted {
            let question = question(mutant)
            mutant.builtLines = []
            if let found = written.range(of: question) {
                let first = written[..<found.lowerBound].count { $0 == "\n" } + 1
                let height = mutant.original.count { $0 == "\n" } + mutant.replacement.count { $0 == "\n" }
                mutant.builtLines = [first, first + height]
            }
            placed.append(mutant)
        }
        return (written, placed)
    }

    private static func question(_ mutant: Mutant) -> String { "ConvoyMutants.isTried(\(mutant.slot))" }

    /// Returns the bytes of a range with the given mutants, which all lie in it. Of two that overlap, the first
    /// contains the second.
    private static func render(_ range: Range<Int>, of source: [UInt8], with mutants: ArraySlice<Mutant>) -> String {
        var result = ""
        var position = range.lowerBound
        var rest = mutants
        while let mutant = rest.popFirst() {
            if mutant.start < position { continue }
            result += String(decoding: source[position..<mutant.start], as: UTF8.self)
            let inner = rest.prefix { $0.start < mutant.end }
            rest = rest.dropFirst(inner.count)
            let original = render(mutant.start..<mutant.end, of: source, with: inner)
            switch mutant.shape {
            case .expression: result += "(\(question(mutant)) ? (\(mutant.replacement)) : (\(original)))"
            case .statement where mutant.replacement.isEmpty: result += "if !\(question(mutant)) { \(original) }"
            case .statement: result += "if \(question(mutant)) { \(mutant.replacement) } else { \(original) }"
            case .condition: result += "!\(question(mutant)), "
            }
            position = mutant.end
        }
        return result + String(decoding: source[position..<range.upperBound], as: UTF8.self)
    }

    /// Imports the module of the condition in an existing line, so that line numbers do not change.
    private static func importing(_ text: String) -> String {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        if let index = lines.firstIndex(where: { $0.contains("import ") && !$0.hasPrefix("//") && !$0.hasPrefix(" ") }) {
            lines[index] = "import \(module); " + lines[index]
        } else if let index = lines.firstIndex(where: { !$0.hasPrefix("//") && !$0.isEmpty }) {
            lines[index] = "import \(module); " + lines[index]
        }
        return lines.joined(separator: "\n")
    }

    /// The source of the condition, which compares a slot with an environment variable, or records that a mutant was
    /// reached in a file that all processes of a run share and that survives them.
    static let answer = """
        import Glibc

        public enum ConvoyMutants {
            private static let tried: Int32 = getenv("CONVOY_MUTANT").map { atoi($0) } ?? 0
            nonisolated(unsafe) private static let reached: UnsafeMutablePointer<UInt8>? = {
                guard let path = getenv("CONVOY_MUTANTS_REACHED") else { return nil }
                let file = open(path, O_RDWR)
                guard file >= 0 else { return nil }
                defer { close(file) }
                let size = Int(lseek(file, 0, SEEK_END))
                let start = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                guard let start, start != MAP_FAILED else { return nil }
                return start.assumingMemoryBound(to: UInt8.self)
            }()

            public static func isTried(_ slot: Int32) -> Bool {
                if let reached { reached[Int(slot)] = 1 }
                return slot == tried
            }
        }
        """
}
