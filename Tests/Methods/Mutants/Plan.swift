import Foundation

/// The mutants chosen by a seed, and the package that contains them.
struct Plan: Codable {
    /// The modules whose mutants are tried.
    static let modules = ["ConvoyOperations", "ConvoyTransport", "ConvoyDownloads", "ConvoySecurity", "ConvoyCache"]
    /// The line of the package manifest that turns warnings into errors, which is removed because a mutant may never
    /// read a value.
    static let strictness = "    .treatAllWarnings(as: .error),\n"

    let seed: UInt64
    /// A hash of the sources, to check that the positions of the mutants are still valid.
    var fingerprint: UInt64
    /// The number of mutants to try.
    let count: Int
    /// The number of mutants in the sources.
    let total: Int
    /// The mutants that are built in: more than are tried, because some do not compile.
    var mutants: [Mutant]
    /// The number of mutants that did not compile.
    var dropped = 0

    /// The mutants to try, in the order in which the seed drew them.
    var tried: [Mutant] { Array(mutants.prefix(count)) }

    /// Draws from all mutants of the sources.
    ///
    /// - Parameter chosen: The numbers of additional mutants to build in.
    static func make(sources root: URL, seed: UInt64, count: Int, with chosen: Set<Int> = []) throws -> Plan {
        let (all, fingerprint) = try all(in: root)
        var random = SplitMix64(state: seed)
        var drawn = Array(all.shuffled(using: &random).prefix(count * 5 / 4))
        let known = Set(drawn.map(\.number))
        drawn += all.filter { chosen.contains($0.number) && !known.contains($0.number) }
        for index in drawn.indices { drawn[index].slot = index + 1 }
        return Plan(seed: seed, fingerprint: fingerprint, count: count, total: all.count, mutants: drawn)
    }

    /// Locates the mutants in changed sources, and removes those whose line no longer exists. Returns the number
    /// removed.
    mutating func follow(sources root: URL) throws -> Int {
        let (all, fingerprint) = try Self.all(in: root)
        guard fingerprint != self.fingerprint else { return 0 }
        self.fingerprint = fingerprint
        let places = Dictionary(all.map { ($0.identity, $0) }) { first, _ in first }
        let before = mutants.count
        mutants = mutants.compactMap { mutant in
            guard let place = places[mutant.identity] else { return nil }
            var moved = mutant
            (moved.line, moved.column, moved.start, moved.end) = (place.line, place.column, place.start, place.end)
            return moved
        }
        return before - mutants.count
    }

    /// Returns all mutants of the sources, numbered, and the fingerprint of the sources.
    static func all(in root: URL) throws -> (mutants: [Mutant], fingerprint: UInt64) {
        var all: [Mutant] = []
        var fingerprint: UInt64 = 0xCBF2_9CE4_8422_2325
        for module in modules {
            for path in try files(below: root, "Sources/\(module)") where path.hasSuffix(".swift") {
                let text = try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
                all += MutantFinder.mutants(of: text, file: path)
                for byte in text.utf8 { fingerprint = (fingerprint ^ UInt64(byte)) &* 0x100_0000_01B3 }
            }
        }
        var seen: [[String]: Int] = [:]
        for index in all.indices {
            all[index].number = index + 1
            let identity = all[index].identity
            all[index].occurrence = seen[identity, default: 0]
            seen[identity, default: 0] += 1
        }
        return (all, fingerprint)
    }

    /// Writes the package with the mutants into a folder. Files that are already correct are kept to speed up the
    /// build.
    mutating func write(package root: URL, into folder: URL) throws {
        let byFile = Dictionary(grouping: mutants, by: \.file)
        var placed: [Int: [Int]] = [:]
        var written: Set<String> = []
        for path in try ["Package.swift"] + Self.files(below: root, "Sources") + Self.files(below: root, "Tests") {
            let target = folder.appendingPathComponent(path)
            var data = try Data(contentsOf: root.appendingPathComponent(path))
            if path == "Package.swift" {
                data = Data(String(decoding: data, as: UTF8.self).replacingOccurrences(of: Self.strictness, with: "").utf8)
            } else if let mutants = byFile[path] {
                let result = Schemata.write(mutants, into: String(decoding: data, as: UTF8.self))
                for mutant in result.mutants { placed[mutant.slot] = mutant.builtLines }
                data = Data(result.text.utf8)
            }
            try Self.write(data, to: target)
            written.insert(path)
        }
        let answer = "Sources/\(Schemata.module)/ConvoyMutants.swift"
        try Self.write(Data(Schemata.answer.utf8), to: folder.appendingPathComponent(answer))
        written.insert(answer)
        for path in try Self.files(below: folder, "Sources") + Self.files(below: folder, "Tests")
        where !written.contains(path) {
            try FileManager.default.removeItem(at: folder.appendingPathComponent(path))
        }
        for index in mutants.indices { mutants[index].builtLines = placed[mutants[index].slot] ?? [] }
    }

    /// Removes the mutants to which a compiler's messages refer. Returns the number removed.
    mutating func drop(messages: String, package folder: URL) -> Int {
        var blamed: Set<Int> = []
        for line in Set(messages.split(separator: "\n")) where line.contains(": error: ") {
            let parts = line.split(separator: ":", maxSplits: 3)
            guard parts.count == 4, let number = Int(parts[1]), parts[0].hasPrefix(folder.path) else { continue }
            let path = String(parts[0].dropFirst(folder.path.count + 1))
            let here = mutants.filter { $0.file == path && $0.builtLines.count == 2 }
            let exact = here.filter { $0.builtLines[0] <= number && number <= $0.builtLines[1] }
            if exact.isEmpty {
                // A missing return is reported at the end of the function, and a missing case at the start of the
                // `switch`.
                let before =
                    line.contains("exhaustive") ? nil : here.filter { $0.builtLines[0] <= number }.map(\.builtLines[0]).max()
                let nearest = before ?? here.map(\.builtLines[0]).filter { $0 > number }.min()
                blamed.formUnion(here.filter { $0.builtLines[0] == nearest }.map(\.slot))
            } else {
                blamed.formUnion(exact.map(\.slot))
            }
        }
        for mutant in mutants where blamed.contains(mutant.slot) { say("does not compile: \(mutant.title)") }
        mutants.removeAll { blamed.contains($0.slot) }
        dropped += blamed.count
        return blamed.count
    }

    private static func write(_ data: Data, to file: URL) throws {
        if (try? Data(contentsOf: file)) == data { return }
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try data.write(to: file)
    }

    private static func files(below root: URL, _ folder: String) throws -> [String] {
        let base = root.appendingPathComponent(folder)
        guard FileManager.default.fileExists(atPath: base.path) else { return [] }
        return try FileManager.default.subpathsOfDirectory(atPath: base.path).sorted().filter { path in
            var isFolder: ObjCBool = false
            _ = FileManager.default.fileExists(atPath: base.appendingPathComponent(path).path, isDirectory: &isFolder)
            return !isFolder.boolValue
        }.map { "\(folder)/\($0)" }
    }
}

/// The generator of the tests' seeds.
struct SplitMix64: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
