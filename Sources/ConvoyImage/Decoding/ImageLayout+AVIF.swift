#if Images
extension ImageLayout {
    /// Returns whether the brands of an ISO base media file identify it as an AVIF image or image sequence.
    static func isAVIF(_ body: ImageBytes) -> Bool {
        brandPlaces(body).contains { ["avif", "avis"].contains(body.text($0)) }
    }

    private static func brandPlaces(_ body: ImageBytes) -> [Range<Int>] {
        guard let size = try? body.number(4, at: 0, bigEndian: true), 16...4096 ~= size, size % 4 == 0 else { return [] }
        return ([8] + Array(stride(from: 16, to: min(size, body.count - 3), by: 4))).map { $0..<($0 + 4) }
    }

    /// Parses an AVIF (AV1 Image File Format, over ISO/IEC 14496-12 and 23008-12): boxes, one of which describes the
    /// items. Of an image sequence, the decoder gets only the primary item, not the tracks.
    ///
    /// Checks every size that a property or a bitstream declares, regardless of the item to which it belongs.
    static func avif(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        var description: Range<Int>?
        var hasData = false
        var tracks: [Range<Int>] = []
        for box in try boxes(body, 0..<body.count) {
            switch body.text(box.name) {
            case "meta" where description == nil: description = box.content
            case "mdat": hasData = true
            // The `moov` box describes the frames of a sequence.
            case "moov": tracks.append(box.name)
            default: break
            }
        }
        guard let description, description.count >= 4 else { throw .malformed("no description of the items") }
        guard hasData else { throw .truncated }
        var items = AVIFItems()
        for box in try boxes(body, (description.lowerBound + 4)..<description.upperBound) {
            try items.read(body, box, limits: limits)
        }
        let (width, height) = try items.primarySize()
        try limits.check(width: width, height: height)
        guard try items.areExtentsInside(body) else { throw .truncated }
        try items.checkBitstreams(body, limits: limits)
        var layout = ImageLayout(
            .avif, width: width, height: height, pieces: tracks.isEmpty ? [.range(0..<body.count)] : [])
        if !tracks.isEmpty { layout.pieces = [.bytes(try still(body, withoutTracks: tracks))] }
        layout.colorSpace = try items.colorSpace(in: body)
        return layout
    }

    /// Returns a sequence as a still image: with tracks that are free space, and the brand of images.
    private static func still(_ body: ImageBytes, withoutTracks tracks: [Range<Int>]) throws(ImageFault) -> [UInt8] {
        var bytes = try body.array(0..<body.count)
        for track in tracks { bytes.replaceSubrange(track, with: Array("free".utf8)) }
        for place in brandPlaces(body) where body.text(place) == "avis" {
            bytes.replaceSubrange(place, with: Array("avif".utf8))
        }
        return bytes
    }

    struct Box {
        var name: Range<Int>
        var content: Range<Int>
    }

    /// Returns the boxes in a range, which they must fill exactly.
    static func boxes(_ body: ImageBytes, _ range: Range<Int>) throws(ImageFault) -> [Box] {
        var boxes: [Box] = []
        var offset = range.lowerBound
        while offset < range.upperBound {
            guard range.upperBound - offset >= 8 else { throw .truncated }
            var size = try body.number(4, at: offset, bigEndian: true)
            var header = 8
            if size == 1 {
                guard range.upperBound - offset >= 16, try body.number(4, at: offset + 8, bigEndian: true) == 0 else {
                    throw .truncated
                }
                size = try body.number(4, at: offset + 12, bigEndian: true)
                header = 16
            } else if size == 0 {
                // The box extends to the end of the file, which is allowed only for the last box.
                size = range.upperBound - offset
            }
            guard size >= header else { throw .malformed("invalid box size") }
            guard size <= range.upperBound - offset else { throw .truncated }
            guard boxes.count < 1024 else { throw .malformed("too many boxes") }
            boxes.append(Box(name: (offset + 4)..<(offset + 8), content: (offset + header)..<(offset + size)))
            offset += size
        }
        return boxes
    }
}

/// The items of an AVIF image: the primary item, the sizes of the items, and the locations of their bytes.
private struct AVIFItems {
    private var primary: Int?
    /// The sizes, keyed by the index of their property.
    private var sizes: [Int: (width: Int, height: Int)] = [:]
    /// The contents of the colour properties, keyed in the same way.
    private var colors: [Int: Range<Int>] = [:]
    /// The property indices of each item.
    private var properties: [Int: [Int]] = [:]
    private var extents: [Range<Int>] = []
    /// The numbers of all extents and properties. The fields of an extent may have no bytes.
    private var countedExtents = 0
    private var countedProperties = 0
    private static let mostCounted = 1 << 16
    /// The items that are AV1 images, and the first extent of each item.
    private var coded: Set<Int> = []
    private var starts: [Int: Range<Int>] = [:]

    mutating func read(_ body: ImageBytes, _ box: ImageLayout.Box, limits: ImageLimits) throws(ImageFault) {
        let start = box.content.lowerBound
        switch body.text(box.name) {
        case "pitm":
            primary = try body.number(body.byte(start) == 0 ? 2 : 4, at: start + 4, bigEndian: true)
        case "iprp":
            for part in try ImageLayout.boxes(body, box.content) {
                switch body.text(part.name) {
                case "ipco": try readProperties(body, part.content, limits)
                case "ipma": try readAssociations(body, part.content)
                default: break
                }
            }
        case "iinf": try readTypes(body, box.content)
        case "iloc": try readPlaces(body, box.content)
        default: break
        }
    }

    private mutating func readProperties(
        _ body: ImageBytes, _ range: Range<Int>, _ limits: ImageLimits
    ) throws(ImageFault) {
        for (index, box) in try ImageLayout.boxes(body, range).enumerated() {
            if body.text(box.name) == "colr" { colors[index + 1] = box.content }
            guard body.text(box.name) == "ispe" else { continue }
            guard box.content.count >= 12 else { throw .malformed("incomplete size property") }
            let width = try body.number(4, at: box.content.lowerBound + 4, bigEndian: true)
            let height = try body.number(4, at: box.content.lowerBound + 8, bigEndian: true)
            try limits.check(width: width, height: height)
            sizes[index + 1] = (width, height)
        }
    }

    private mutating func readAssociations(_ body: ImageBytes, _ range: Range<Int>) throws(ImageFault) {
        let start = range.lowerBound
        let version = try body.byte(start)
        let isWide = try body.byte(start + 3) & 1 == 1
        let count = try body.number(4, at: start + 4, bigEndian: true)
        var offset = start + 8
        for _ in 0..<count {
            guard offset < range.upperBound else { throw .malformed("properties are missing") }
            let item = try body.number(version == 0 ? 2 : 4, at: offset, bigEndian: true)
            offset += version == 0 ? 2 : 4
            let number = try body.byte(offset)
            offset += 1
            countedProperties += number
            guard countedProperties <= Self.mostCounted else { throw .malformed("too many properties") }
            for _ in 0..<number {
                let property = try body.number(isWide ? 2 : 1, at: offset, bigEndian: true)
                properties[item, default: []].append(property & (isWide ? 0x7FFF : 0x7F))
                offset += isWide ? 2 : 1
            }
        }
        guard offset <= range.upperBound else { throw .malformed("properties extend beyond their box") }
    }

    /// Reads the types of the items (ISO/IEC 14496-12, section 8.11.6).
    private mutating func readTypes(_ body: ImageBytes, _ range: Range<Int>) throws(ImageFault) {
        let isShort = try body.byte(range.lowerBound) == 0
        let first = range.lowerBound + (isShort ? 6 : 8)
        guard first <= range.upperBound else { throw .malformed("no items") }
        for entry in try ImageLayout.boxes(body, first..<range.upperBound) {
            let start = entry.content.lowerBound
            let version = try body.byte(start)
            guard version == 2 || version == 3 else { continue }
            let item = try body.number(version == 2 ? 2 : 4, at: start + 4, bigEndian: true)
            if body.starts(with: Array("av01".utf8), at: start + (version == 2 ? 8 : 10)) { coded.insert(item) }
        }
    }

    /// Checks the sizes in the bitstreams, because decoders allocate memory according to these, not to the properties.
    func checkBitstreams(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) {
        for item in coded {
            guard let range = starts[item] else { throw .malformed("an image item has no data") }
            let (width, height) = try AV1SequenceHeader.size(body, range.clamped(to: 0..<body.count))
            try limits.check(width: width, height: height)
        }
    }

    /// Reads the locations of the items (ISO/IEC 14496-12, section 8.11.3).
    private mutating func readPlaces(_ body: ImageBytes, _ range: Range<Int>) throws(ImageFault) {
        let start = range.lowerBound
        let version = try body.byte(start)
        guard version <= 2 else { throw .malformed("unsupported version") }
        let sizes = try body.number(2, at: start + 4, bigEndian: true)
        let (offsetSize, lengthSize) = (sizes >> 12, sizes >> 8 & 15)
        let (baseSize, indexSize) = (sizes >> 4 & 15, version == 0 ? 0 : sizes & 15)
        var offset = start + 6
        func next(_ size: Int) throws(ImageFault) -> Int {
            defer { offset += size }
            switch size {
            case 0: return 0
            case 1...4: return try body.number(size, at: offset, bigEndian: true)
            case 8:
                // A body is never larger than 4 GiB.
                guard try body.number(4, at: offset, bigEndian: true) == 0 else { throw .truncated }
                return try body.number(4, at: offset + 4, bigEndian: true)
            default: throw .malformed("unsupported field size (\(size) bytes)")
            }
        }
        let count = try next(version < 2 ? 2 : 4)
        for _ in 0..<count {
            guard offset < range.upperBound else { throw .malformed("items are missing") }
            let item = try next(version < 2 ? 2 : 4)
            let method = version == 0 ? 0 : try next(2) & 15
            _ = try next(2)
            let base = try next(baseSize)
            let extentCount = try next(2)
            countedExtents += extentCount
            guard countedExtents <= Self.mostCounted else { throw .malformed("too many extents") }
            for _ in 0..<extentCount {
                _ = try next(indexSize)
                let place = try base + next(offsetSize)
                let length = try next(lengthSize)
                // The other construction methods use offsets relative to a location within the description.
                guard method == 0 else { continue }
                extents.append(place..<(place + length))
                if starts[item] == nil { starts[item] = place..<(place + length) }
            }
        }
        guard offset <= range.upperBound else { throw .malformed("items extend beyond their box") }
    }

    /// Returns the size of the primary item.
    func primarySize() throws(ImageFault) -> (width: Int, height: Int) {
        guard let primary else { throw .malformed("no primary item") }
        for property in properties[primary] ?? [] {
            if let size = sizes[property] { return size }
        }
        throw .malformed("an image has no size")
    }

    /// Returns the colour space of the primary item: that of its profile, or else that of its code points.
    func colorSpace(in body: ImageBytes) throws(ImageFault) -> ImageColorSpace? {
        var space: ImageColorSpace?
        for property in primary.flatMap({ properties[$0] }) ?? [] {
            guard let color = colors[property], color.count > 4 else { continue }
            let content = (color.lowerBound + 4)..<color.upperBound
            switch body.text(color.lowerBound..<content.lowerBound) {
            case "prof", "rICC": return try .profile(of: body, content)
            case "nclx" where content.count >= 4:
                space = .codePoints(
                    primaries: try body.number(2, at: content.lowerBound, bigEndian: true),
                    transfer: try body.number(2, at: content.lowerBound + 2, bigEndian: true))
            default: break
            }
        }
        return space
    }

    /// Returns whether the body contains all bytes of the items.
    func areExtentsInside(_ body: ImageBytes) throws(ImageFault) -> Bool {
        guard !extents.isEmpty else { throw .malformed("an image item has no data") }
        return extents.allSatisfy { $0.upperBound <= body.count }
    }
}

/// A reader of the largest frame size of an AV1 bitstream (AV1 specification, section 5.5).
private struct AV1SequenceHeader {
    private let body: ImageBytes
    private var bit: Int

    /// Returns the size in the first sequence header of an item.
    static func size(_ body: ImageBytes, _ range: Range<Int>) throws(ImageFault) -> (width: Int, height: Int) {
        var offset = range.lowerBound
        // A temporal delimiter and padding may precede the sequence header.
        for _ in 0..<16 where offset < range.upperBound {
            let header = try body.byte(offset)
            offset += header & 0x04 != 0 ? 2 : 1
            var size = range.upperBound - offset
            if header & 0x02 != 0 {
                size = 0
                for index in 0..<5 {
                    let byte = try body.byte(offset)
                    offset += 1
                    size |= (byte & 0x7F) << (7 * index)
                    if byte & 0x80 == 0 { break }
                }
            }
            if header >> 3 & 15 == 1 {
                var reader = AV1SequenceHeader(body: body, bit: offset * 8)
                return try reader.size()
            }
            offset += size
        }
        throw .malformed("a bitstream has no sequence header")
    }

    private mutating func number(_ bits: Int) throws(ImageFault) -> Int {
        var value = 0
        for _ in 0..<bits {
            value = value << 1 | (try body.byte(bit / 8)) >> (7 - bit % 8) & 1
            bit += 1
        }
        return value
    }

    private mutating func size() throws(ImageFault) -> (width: Int, height: Int) {
        _ = try number(4)
        if try number(1) == 1 { _ = try number(5) } else { try skipOperatingPoints() }
        let widthBits = try number(4) + 1
        let heightBits = try number(4) + 1
        return (try number(widthBits) + 1, try number(heightBits) + 1)
    }

    private mutating func skipOperatingPoints() throws(ImageFault) {
        var delayBits = 0
        if try number(1) == 1 {
            _ = try number(32)
            _ = try number(32)
            if try number(1) == 1 {
                var zeros = 0
                while try number(1) == 0 {
                    zeros += 1
                    guard zeros < 32 else { throw .malformed("unterminated number") }
                }
                _ = try number(zeros)
            }
            if try number(1) == 1 {
                delayBits = try number(5) + 1
                _ = try number(32)
                _ = try number(10)
            }
        }
        let hasDisplayDelay = try number(1) == 1
        for _ in 0...(try number(5)) {
            _ = try number(12)
            if try number(5) > 7 { _ = try number(1) }
            if delayBits > 0, try number(1) == 1 { _ = try number(2 * delayBits + 1) }
            if hasDisplayDelay, try number(1) == 1 { _ = try number(4) }
        }
    }
}
#endif
