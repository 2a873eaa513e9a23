import Foundation

/// Searches in strings and bytes by code points and in linear time (Knuth, Morris and Pratt).
enum ByteSearch {
    /// Returns the position of each occurrence, without overlaps.
    ///
    /// - Parameter limit: The maximum number of occurrences.
    /// - Returns: The positions, or nil if there are more.
    static func positions(of needle: Data, in data: Data, limit: Int = .max) -> [Int]? {
        guard !needle.isEmpty, needle.count <= data.count else { return [] }
        return needle.withUnsafeBytes { needle in
            let borders = borders(of: needle)
            return data.withUnsafeBytes { data in
                var positions: [Int] = [], matched = 0
                for index in 0..<data.count {
                    while matched > 0, data[index] != needle[matched] { matched = borders[matched - 1] }
                    if data[index] == needle[matched] { matched += 1 }
                    guard matched == needle.count else { continue }
                    guard positions.count < limit else { return nil }
                    positions.append(index + 1 - matched)
                    matched = 0
                }
                return positions
            }
        }
    }

    static func contains(_ needle: Data, in data: Data) -> Bool {
        needle.isEmpty || positions(of: needle, in: data, limit: 0) == nil
    }

    /// Returns for each prefix the length of the longest shorter prefix that is also its suffix.
    private static func borders(of needle: UnsafeRawBufferPointer) -> [Int] {
        var borders = [Int](repeating: 0, count: needle.count), length = 0
        for index in 1..<max(needle.count, 1) {
            while length > 0, needle[index] != needle[length] { length = borders[length - 1] }
            if needle[index] == needle[length] { length += 1 }
            borders[index] = length
        }
        return borders
    }
}
