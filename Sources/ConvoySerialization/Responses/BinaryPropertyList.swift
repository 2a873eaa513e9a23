import Foundation
import FoundationNetworking

/// A look at the objects of a binary property list before it is read.
///
/// In that format objects refer to each other by number, so that a few hundred bytes can describe an array of ten
/// arrays of ten arrays… with 10^12 elements, which Foundation on Linux would build one by one.
struct BinaryPropertyList {
    static let magic = Array("bplist".utf8)

    static let malformed = NSError(
        domain: NSCocoaErrorDomain, code: CocoaError.propertyListReadCorrupt.rawValue,
        userInfo: [NSDebugDescriptionErrorKey: "The binary property list is malformed."])

    /// Throws when the list, written out as a tree, would be nested too deep or have more elements than 16 for each of
    /// its bytes. An honest list repeats small things, not large ones.
    static func check(_ data: Data, limits: ResponseLimits, response: URLResponse?) throws {
        guard data.count >= 40 else { throw malformed }
        try data.withUnsafeBytes { bytes in
            var list = try BinaryPropertyList(bytes: bytes)
            let total = try list.measure(maximumDepth: limits.maximumNestingDepth) {
                limits.nestingError(response)
            }
            guard UInt64(total) <= min(UInt64(data.count) * 16, UInt64(UInt32.max) - 1) else {
                throw NSError.limit(
                    .expansion, "The property list refers to itself so often that it would grow without measure.",
                    response)
            }
        }
    }

    private let bytes: UnsafeRawBufferPointer
    private let offsetSize: Int
    private let referenceSize: Int
    private let objectCount: Int
    private let root: Int
    private let tableOffset: Int
    /// For each object, the elements of the tree under it, itself counted, and how deep that is. 0 elements before it
    /// was measured; the greatest number for that many or more. Six bytes an object, because a body can have as many
    /// objects as bytes.
    private var counts: [UInt32]
    private var depths: [UInt16]

    private init(bytes: UnsafeRawBufferPointer) throws {
        self.bytes = bytes
        let trailer = bytes.count - 32
        offsetSize = Int(bytes[trailer + 6])
        referenceSize = Int(bytes[trailer + 7])
        guard (1...8).contains(offsetSize), (1...8).contains(referenceSize),
            let objectCount = Self.integer(bytes, at: trailer + 8, size: 8),
            let root = Self.integer(bytes, at: trailer + 16, size: 8),
            let tableOffset = Self.integer(bytes, at: trailer + 24, size: 8),
            objectCount > 0, root < objectCount, tableOffset < trailer,
            objectCount <= (trailer - tableOffset) / offsetSize
        else { throw Self.malformed }
        self.objectCount = objectCount
        self.root = root
        self.tableOffset = tableOffset
        counts = Array(repeating: 0, count: objectCount)
        depths = Array(repeating: 0, count: objectCount)
    }

    /// The elements of the whole tree, counted without building or recursing into it.
    private mutating func measure(maximumDepth: Int, tooDeep: () -> NSError) throws -> UInt32 {
        let maximumDepth = min(maximumDepth, Int(UInt16.max) - 1)
        var path: [(object: Int, references: References, next: Int)] = [(root, try references(of: root), 0)]
        while let last = path.last {
            if last.next < last.references.count {
                path[path.count - 1].next += 1
                let child = try object(last.next, of: last.references)
                if counts[child] == 0 {
                    // A path that is longer than the limit is too deep, or goes round in a circle.
                    guard path.count <= maximumDepth else { throw tooDeep() }
                    path.append((child, try references(of: child), 0))
                }
            } else {
                var count: UInt32 = 1
                var depth: UInt16 = 0
                for index in 0..<last.references.count {
                    let child = try object(index, of: last.references)
                    let sum = count.addingReportingOverflow(counts[child])
                    count = sum.overflow ? .max : sum.partialValue
                    depth = max(depth, depths[child] + 1)
                }
                guard Int(depth) <= maximumDepth else { throw tooDeep() }
                counts[last.object] = count
                depths[last.object] = depth
                path.removeLast()
            }
        }
        return counts[root]
    }

    /// Where the references of a container are, and how many.
    private struct References {
        var start = 0
        var count = 0
    }

    /// The references that a container holds; none for anything else that a property list can have.
    ///
    /// The format also has sets, null and the numbers that archives refer by. They are no property list, and Foundation
    /// crashes on Linux when it makes Swift values of some of them.
    private func references(of object: Int) throws -> References {
        let offset = try location(of: object)
        let marker = bytes[offset]
        let kind = marker >> 4
        switch kind {
        case 0x1, 0x2, 0x4, 0x5, 0x6: return References()
        case 0x0 where marker == 0x08 || marker == 0x09: return References()
        case 0x3 where marker == 0x33: return References()
        case 0xA, 0xD: break
        default: throw Self.malformed
        }
        var count = Int(marker & 0xF)
        var start = offset + 1
        if count == 0xF {
            guard start < tableOffset, bytes[start] >> 4 == 1, bytes[start] & 0xF <= 3 else { throw Self.malformed }
            let size = 1 << Int(bytes[start] & 0xF)
            guard let long = Self.integer(bytes, at: start + 1, size: size) else { throw Self.malformed }
            count = long
            start += 1 + size
        }
        let perElement = kind == 0xD ? 2 : 1
        guard start <= tableOffset, count <= (tableOffset - start) / referenceSize / perElement else {
            throw Self.malformed
        }
        let references = References(start: start, count: count * perElement)
        if kind == 0xD {
            for index in 0..<count {
                let key = bytes[try location(of: self.object(index, of: references))] >> 4
                guard key == 0x5 || key == 0x6 else { throw Self.malformed }
            }
        }
        return references
    }

    private func location(of object: Int) throws -> Int {
        guard let offset = Self.integer(bytes, at: tableOffset + object * offsetSize, size: offsetSize),
            offset < tableOffset
        else { throw Self.malformed }
        return offset
    }

    private func object(_ index: Int, of references: References) throws -> Int {
        let offset = references.start + index * referenceSize
        guard let object = Self.integer(bytes, at: offset, size: referenceSize), object < objectCount else {
            throw Self.malformed
        }
        return object
    }

    /// A big-endian number, or nil when it lies outside the bytes or is no positive `Int`.
    private static func integer(_ bytes: UnsafeRawBufferPointer, at offset: Int, size: Int) -> Int? {
        guard offset >= 0, size <= bytes.count, offset <= bytes.count - size else { return nil }
        var value: UInt64 = 0
        for index in 0..<size { value = value << 8 | UInt64(bytes[offset + index]) }
        return Int(exactly: value)
    }
}
