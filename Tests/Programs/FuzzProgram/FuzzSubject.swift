// All subjects need internal declarations, which a release build includes only on request.
#if DEBUG || FUZZ
import Foundation

/// A parser of external bytes, as a function that a fuzzer can call. Any bytes must be parsed or rejected without a
/// trap, in time proportional to their number.
struct FuzzSubject: Sendable {
    let name: String
    /// Valid inputs with which the fuzzer starts.
    let seeds: [[UInt8]]
    /// Parses the bytes. Throws ``FuzzFinding`` if a property does not hold, and any other error if the bytes are
    /// rejected.
    let read: @Sendable ([UInt8]) throws -> Void

    init(_ name: String, seeds: [String], read: @escaping @Sendable ([UInt8]) throws -> Void) {
        self.init(name, bytes: seeds.map { Array($0.utf8) }, read: read)
    }

    init(_ name: String, bytes seeds: [[UInt8]], read: @escaping @Sendable ([UInt8]) throws -> Void) {
        (self.name, self.seeds, self.read) = (name, seeds, read)
    }

    /// Inputs that reach new code, and inputs that revealed earlier defects. `Corpora` contains each as a line of
    /// Base64.
    var kept: [[UInt8]] { corpus.inputs }

    private var file: URL {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Corpora/\(name).txt")
    }

    /// The stored inputs, and the processor time spent on finding them, which is stored in the first line.
    private var corpus: (inputs: [[UInt8]], seconds: Int) {
        guard let text = try? String(contentsOf: file, encoding: .utf8) else { return ([], 0) }
        let lines = text.split(separator: "\n")
        let seconds = lines.first.flatMap { $0.wholeMatch(of: /# ([0-9]+) seconds of a processor/) }.flatMap { Int($0.1) }
        return (lines.compactMap { Data(base64Encoded: String($0)).map(Array.init) }, seconds ?? 0)
    }

    /// Stores new inputs beside the existing ones, and returns all of them.
    func keep(_ inputs: [[UInt8]], seconds: Int) throws -> (inputs: [[UInt8]], seconds: Int) {
        var corpus = corpus
        var known = Set(seeds + corpus.inputs)
        corpus.inputs += inputs.filter { known.insert($0).inserted }
        corpus.seconds += seconds
        let lines = ["# \(corpus.seconds) seconds of a processor"] + corpus.inputs.map { Data($0).base64EncodedString() }
        try Data(lines.map { $0 + "\n" }.joined().utf8).write(to: file, options: .atomic)
        return corpus
    }

    static let all: [FuzzSubject] = messages + documents + records + files

    /// Parses bytes, and returns the violated property, if any.
    func finding(_ bytes: [UInt8]) -> FuzzFinding? {
        do {
            try read(bytes)
        } catch let finding as FuzzFinding {
            return finding
        } catch {}
        return nil
    }
}

/// A property that does not hold for certain bytes.
struct FuzzFinding: Error, CustomStringConvertible {
    let description: String
}

/// Throws a finding unless a condition holds.
func expect(_ condition: @autoclosure () throws -> Bool, _ text: @autoclosure () -> String) throws {
    guard try condition() else { throw FuzzFinding(description: text()) }
}

/// Mutates bytes at random in the manner of libFuzzer, for runs without it. Equal seeds produce the same mutations.
struct Mutator {
    private var state: UInt64

    init(seed: UInt64) { state = seed &* 2 &+ 1 }

    mutating func number(below bound: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int((state >> 33) % UInt64(max(1, bound)))
    }

    /// Bytes at the edges of character classes, and texts with a meaning in several formats.
    private static let tokens: [[UInt8]] =
        [
            "\r\n", "\n", "\"", "\\", ";", ",", "=", "/", "%00", "%", "9223372036854775807", "18446744073709551616", "-1",
            "0",
            "*", "bytes", "\u{301}", "\u{FEFF}", "é", " ", "\t", "[", "]", "{", "}", "<", ">", "&", "1e999", "null", "'",
        ].map { Array($0.utf8) } + [[0], [0xFF], [0x80], [0xED, 0xA0, 0x80], [0xC0, 0xAF]]

    mutating func mutate(_ bytes: [UInt8], with other: [UInt8]) -> [UInt8] {
        var bytes = bytes
        for _ in 0...number(below: 4) {
            let place = number(below: bytes.count + 1)
            switch number(below: 8) {
            case 0 where place < bytes.count: bytes[place] = UInt8(number(below: 256))
            case 1 where place < bytes.count: bytes[place] ^= 1 << UInt8(number(below: 8))
            case 2: bytes.insert(contentsOf: Self.tokens[number(below: Self.tokens.count)], at: place)
            case 3: bytes.removeSubrange(place..<min(bytes.count, place + 1 + number(below: 16)))
            case 4: bytes.removeSubrange(place...)
            case 5: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + 1 + number(below: 64))], at: place)
            case 6 where !other.isEmpty:
                let start = number(below: other.count)
                bytes.insert(contentsOf: other[start..<min(other.count, start + 1 + number(below: 64))], at: place)
            default: bytes.insert(UInt8(number(below: 256)), at: place)
            }
        }
        return Array(bytes.prefix(1 << 16))
    }
}

/// Returns the bytes as text, with invalid UTF-8 replaced.
func text(_ bytes: some Collection<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

/// Parses lines such as `Name: value` and returns their fields.
func fields(_ bytes: [UInt8]) -> [(name: String, value: String)] {
    text(bytes).split(separator: "\n").compactMap { line in
        guard let colon = line.firstIndex(of: ":") else { return nil }
        return (String(line[..<colon]), line[line.index(after: colon)...].trimmingPrefix(" ").description)
    }
}
#endif
