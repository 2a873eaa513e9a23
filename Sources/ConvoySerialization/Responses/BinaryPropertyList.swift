import Foundation
import FoundationNetworking

/// A look at the objects of a binary property list before it is read.
///
/// In that format objects refer to each other by number, and several numbers can name the same bytes, so that a few
/// hundred bytes can describe an array of ten arrays of ten arrays… with 10^12 elements, which Foundation on Linux
/// would build one by one.
struct BinaryPropertyList {
    static let magic = Array("bplist".utf8)

    static let malformed = NSError(
        domain: NSCocoaErrorDomain, code: CocoaError.propertyListReadCorrupt.rawValue,
        userInfo: [NSDebugDescriptionErrorKey: "The binary property list is malformed."])

    /// Throws when the list, written out as a tree, would be nested too deep or be out of proportion to its bytes: more
    /// than 16 for each of them, and past a million more than one for each. The work is bounded in the same way,
    /// because every look at a reference is charged.
    ///
    /// What is written out counts one for each element, and more for what Foundation copies wherever it is referred to:
    /// bytes by their length, and text by a 32nd of it, which is what an element takes in memory anyway. A list that
    /// repeats nothing never comes to more than its bytes, and an honest one repeats small things, not large ones.
    static func check(_ data: Data, limits: ResponseLimits, response: URLResponse?) throws {
        guard data.count >= 40 else { throw malformed }
        try data.withUnsafeBytes { bytes in
            var list = try BinaryPropertyList(bytes: bytes)
            let most = max(data.count, min(data.count.multipliedReportingOverflow(by: 16).partialValue, 1 << 20))
            try list.measure(
                maximumDepth: limits.maximumNestingDepth, maximumCharge: UInt32(clamping: most),
                tooDeep: { limits.nestingError(response) },
                tooLarge: {
                    NSError.limit(
                        .expansion, "The property list refers to itself so often that it would grow without measure.",
                        response)
                })
        }
    }

    private let bytes: UnsafeRawBufferPointer
    private let offsetSize: Int
    private let referenceSize: Int
    private let objectCount: Int
    private let root: Int
    private let tableOffset: Int
    /// For each object, the charge of the tree under it, itself counted, and how deep that is. 0 before it was
    /// measured. Six bytes an object, because a body can have as many objects as bytes.
    private var charges: [UInt32]
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
        charges = Array(repeating: 0, count: objectCount)
        depths = Array(repeating: 0, count: objectCount)
    }

    /// A container on the path from the root, and what was found of it.
    private struct Visit {
        let object: Int
        let content: Content
        var next = 0
        var charge: UInt32
        var depth: UInt16 = 0
    }

    /// Adds up the whole tree without building or recursing into it, and throws as soon as it is too much.
    private mutating func measure(
        maximumDepth: Int, maximumCharge: UInt32, tooDeep: () -> NSError, tooLarge: () -> NSError
    ) throws {
        let maximumDepth = min(maximumDepth, Int(UInt16.max) - 1)
        // What is looked at, once for each object. All of it is part of the tree, so that it cannot be more than that.
        var seen: UInt32 = 0
        func add(_ charge: UInt32, to sum: inout UInt32) throws {
            let (result, overflow) = sum.addingReportingOverflow(charge)
            guard !overflow, result <= maximumCharge else { throw tooLarge() }
            sum = result
        }
        func visit(_ object: Int) throws -> Visit {
            let content = try content(of: object)
            try add(UInt32(clamping: content.size), to: &seen)
            try add(UInt32(clamping: content.count), to: &seen)
            try checkKeys(of: content)
            var charge: UInt32 = 1
            try add(UInt32(clamping: content.size), to: &charge)
            return Visit(object: object, content: content, charge: charge)
        }
        var path = [try visit(root)]
        while var last = path.popLast() {
            var child: Int?
            while child == nil, last.next < last.content.count {
                let object = try object(last.next, of: last.content)
                if charges[object] == 0 {
                    child = object
                } else {
                    try add(charges[object], to: &last.charge)
                    last.depth = max(last.depth, depths[object] + 1)
                    last.next += 1
                }
            }
            if let child {
                // A path that is longer than the limit is too deep, or goes round in a circle.
                guard path.count < maximumDepth else { throw tooDeep() }
                path.append(last)
                path.append(try visit(child))
            } else {
                guard Int(last.depth) <= maximumDepth else { throw tooDeep() }
                charges[last.object] = last.charge
                depths[last.object] = last.depth
            }
        }
    }

    /// What is copied of an object, in elements, and the references that it holds.
    private struct Content {
        var size = 0
        var start = 0
        var count = 0
        var isDictionary = false
    }

    /// What there is at an object; an error for anything that no property list has.
    ///
    /// The format also has sets, null and the numbers that archives refer by. They are no property list, and Foundation
    /// crashes on Linux when it makes Swift values of some of them.
    private func content(of object: Int) throws -> Content {
        let offset = try location(of: object)
        let marker = bytes[offset]
        switch marker >> 4 {
        case 0x1, 0x2: return Content()
        case 0x0 where marker == 0x08 || marker == 0x09: return Content()
        case 0x3 where marker == 0x33: return Content()
        case 0x4: return Content(size: try extent(at: offset, perElement: 1).count)
        case 0x5: return Content(size: try extent(at: offset, perElement: 1).count / 32)
        case 0x6: return Content(size: try extent(at: offset, perElement: 2).count / 16)
        case 0xA:
            let (start, count) = try extent(at: offset, perElement: referenceSize)
            return Content(start: start, count: count)
        case 0xD:
            let (start, count) = try extent(at: offset, perElement: 2 * referenceSize)
            return Content(start: start, count: 2 * count, isDictionary: true)
        default: throw Self.malformed
        }
    }

    /// Where the elements after a marker begin, and how many there are. They end before the table of objects.
    private func extent(at offset: Int, perElement size: Int) throws -> (start: Int, count: Int) {
        var count = Int(bytes[offset] & 0xF)
        var start = offset + 1
        if count == 0xF {
            guard start < tableOffset, bytes[start] >> 4 == 1, bytes[start] & 0xF <= 3 else { throw Self.malformed }
            let size = 1 << Int(bytes[start] & 0xF)
            guard let long = Self.integer(bytes, at: start + 1, size: size) else { throw Self.malformed }
            count = long
            start += 1 + size
        }
        guard start <= tableOffset, count <= (tableOffset - start) / size else { throw Self.malformed }
        return (start, count)
    }

    private func checkKeys(of content: Content) throws {
        guard content.isDictionary else { return }
        for index in 0..<content.count / 2 {
            let key = bytes[try location(of: object(index, of: content))] >> 4
            guard key == 0x5 || key == 0x6 else { throw Self.malformed }
        }
    }

    private func location(of object: Int) throws -> Int {
        guard let offset = Self.integer(bytes, at: tableOffset + object * offsetSize, size: offsetSize),
            offset < tableOffset
        else { throw Self.malformed }
        return offset
    }

    private func object(_ index: Int, of content: Content) throws -> Int {
        let offset = content.start + index * referenceSize
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
