import Foundation

/// The bytes of an entity: pseudo-random, and determined by the seed and the version.
enum EntityBytes {
    static func data(seed: UInt64, version: Int, count: Int) -> Data {
        guard count > 0 else { return Data() }
        var generator = SeededGenerator(seed, UInt64(truncatingIfNeeded: version))
        var words = [UInt64](repeating: 0, count: (count + 7) / 8)
        words.withUnsafeMutableBufferPointer { words in
            for index in words.indices { words[index] = generator.next() }
        }
        return words.withUnsafeBytes { Data($0.prefix(count)) }
    }
}
