import Foundation
import FoundationNetworking

/// A serializer that parses a property list into dictionaries, arrays and other Foundation objects. The counterpart of
/// `AFPropertyListResponseSerializer`.
public struct PropertyListResponseSerializer: HTTPResponseSerialization {
    /// The acceptable responses, and the limits. The content type is `application/x-plist` by default.
    public var http = HTTPResponseSerializer(contentTypes: ["application/x-plist"])
    /// The parser's options.
    public var readOptions: PropertyListSerialization.ReadOptions

    /// Creates a serializer that accepts `application/x-plist`.
    public init(readOptions: PropertyListSerialization.ReadOptions = []) {
        self.readOptions = readOptions
    }

    /// Returns the root object; nil for a success without a body.
    ///
    /// - Throws: The errors of ``HTTPResponseSerializer/validate(_:data:)``; `PropertyListSerialization`'s error
    ///   (`NSCocoaErrorDomain`, 3840); an error if a limit is exceeded.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            if HTTPResponseSerializer.isOneSpace(data) { return nil }
            let isBinary = data.starts(with: BinaryPropertyList.magic)
            if isBinary { try BinaryPropertyList.check(data, limits: http.limits, response: response) }
            var format = PropertyListSerialization.PropertyListFormat.xml
            let object = try PropertyListSerialization.propertyList(from: data, options: readOptions, format: &format)
            // Foundation parses a truncated binary list as text in the old OpenStep format.
            guard !isBinary || format == .binary else { throw BinaryPropertyList.malformed }
            return object
        }
    }
}

/// A binary property list, whose expanded size is checked before it is parsed.
///
/// In this format, objects refer to each other by number, and an object may be referenced many times. A few hundred
/// bytes can therefore describe an array of ten arrays of ten arrays… with 10^12 elements, which Foundation on Linux
/// would create one by one.
struct BinaryPropertyList {
    static let magic = Array("bplist".utf8)

    static let malformed = NSError(
        domain: NSCocoaErrorDomain, code: CocoaError.propertyListReadCorrupt.rawValue,
        userInfo: [NSDebugDescriptionErrorKey: "The binary property list is malformed."])

    /// Throws an error if the list, expanded to a tree, would be nested too deeply or be too large for its number of
    /// bytes: more than 16 elements per byte or, beyond a million elements, more than one per byte. This also bounds
    /// the work, because every followed reference is counted.
    ///
    /// Each element counts as one, or as more if Foundation copies it for each reference: data counts by its length,
    /// and a string by a 32nd of its length, because every element uses that much memory anyway. The count of a list
    /// without repetitions never exceeds its number of bytes, and ordinary lists repeat only small objects.
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
                        .expansion, "The property list would expand to far more elements than its size allows.",
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
    /// The count of each object's tree, including the object itself, and the depth of the tree; 0 if not yet measured.
    /// The arrays use six bytes per object, because a body can have as many objects as bytes.
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

    /// A container on the path from the root, with its current count.
    private struct Visit {
        let object: Int
        let content: Content
        var next = 0
        var charge: UInt32
        var depth: UInt16 = 0
    }

    /// Counts the entire tree without creating it and without recursion, and throws as soon as the limit is exceeded.
    private mutating func measure(
        maximumDepth: Int, maximumCharge: UInt32, tooDeep: () -> NSError, tooLarge: () -> NSError
    ) throws {
        let maximumDepth = min(maximumDepth, Int(UInt16.max) - 1)
        // `seen` is the count if each object is counted once, which never exceeds that of the tree.
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
                // A path that exceeds the limit is too deep, or circular.
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

    /// The size of an object's own data, in elements, and its references.
    private struct Content {
        var size = 0
        var start = 0
        var count = 0
        var isDictionary = false
    }

    /// Returns the content of an object. Throws an error for objects that are not part of a property list.
    ///
    /// The format also supports sets, null, and the UIDs of keyed archives. They are not allowed in property lists, and
    /// Foundation on Linux crashes when it bridges some of them to Swift.
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

    /// Returns the start and number of the elements after a marker. They must end before the offset table.
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

    /// Reads a big-endian number; nil if it is out of bounds or does not fit into an `Int`.
    private static func integer(_ bytes: UnsafeRawBufferPointer, at offset: Int, size: Int) -> Int? {
        guard offset >= 0, size <= bytes.count, offset <= bytes.count - size else { return nil }
        var value: UInt64 = 0
        for index in 0..<size { value = value << 8 | UInt64(bytes[offset + index]) }
        return Int(exactly: value)
    }
}
