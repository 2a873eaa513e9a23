import Foundation

/// What must not reach Foundation's XML parser on Linux, found in the bytes (valid UTF-8) before it does.
enum XMLHardening {
    /// True when a document type declaration has declarations of its own.
    ///
    /// Its entities can make 100 MB of a document of 100 KB, and Foundation's parser crashes when it reports attribute
    /// lists and notations to its delegate. The words are looked for everywhere, so that no trick of the grammar
    /// hides them; they hardly stand in other places.
    static func hasDeclarations(_ document: Data) -> Bool {
        document.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            guard let start = find("<!DOCTYPE", in: bytes, from: 0) else { return false }
            return ["<!ENTITY", "<!ATTLIST", "<!ELEMENT", "<!NOTATION"].contains {
                find($0, in: bytes, from: start) != nil
            }
        }
    }

    /// The document with a space in every processing instruction that has nothing but a name: `<?x ?>` for `<?x?>`.
    /// Both mean the same, and Foundation's parser crashes on the second.
    ///
    /// - Parameter everywhere: also where comments and CDATA only look as if they had some. For the parser's first look
    ///   at a document that may not be well-formed, in which it is unknown what is a comment.
    static func withSpacedInstructions(_ document: Data, everywhere: Bool) -> Data {
        var places = document.withUnsafeBytes(allBareInstructions)
        if !places.isEmpty && !everywhere { places = document.withUnsafeBytes(bareInstructions) }
        guard !places.isEmpty else { return document }
        var result = Data(capacity: document.count + places.count)
        var start = 0
        document.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            for place in places {
                result.append(contentsOf: bytes[start..<place])
                result.append(0x20)
                start = place
            }
            result.append(contentsOf: bytes[start...])
        }
        return result
    }

    /// Where a space is missing, whatever stands around.
    private static func allBareInstructions(_ bytes: UnsafeRawBufferPointer) -> [Int] {
        var places: [Int] = []
        var index = 0
        while let start = find("<?", in: bytes, from: index) {
            index = start + 2
            if let place = endOfBareName(in: bytes, from: index) { places.append(place) }
        }
        return places
    }

    /// Where a space is missing in a well-formed document. There `<` stands only where markup begins, in comments, in
    /// CDATA, and in the quotes of a document type declaration; the last three are passed over.
    private static func bareInstructions(_ bytes: UnsafeRawBufferPointer) -> [Int] {
        var places: [Int] = []
        var index = 0
        while let start = find("<", in: bytes, from: index) {
            index = start + 1
            if hasWord("<!--", in: bytes, at: start) {
                guard let end = find("-->", in: bytes, from: start + 4) else { break }
                index = end + 3
            } else if hasWord("<![CDATA[", in: bytes, at: start) {
                guard let end = find("]]>", in: bytes, from: start + 9) else { break }
                index = end + 3
            } else if hasWord("<!DOCTYPE", in: bytes, at: start) {
                index = endOfDeclaration(in: bytes, from: start + 9)
            } else if hasWord("<?", in: bytes, at: start) {
                if let place = endOfBareName(in: bytes, from: start + 2) { places.append(place) }
                guard let end = find("?>", in: bytes, from: start + 2) else { break }
                index = end + 2
            }
        }
        return places
    }

    /// The end of a name that `?>` follows at once, or nil for anything else.
    private static func endOfBareName(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        var end = start
        while end < bytes.count, isNameByte(bytes[end]) { end += 1 }
        return end > start && hasWord("?>", in: bytes, at: end) ? end : nil
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            // The digits and the colon stand side by side in ASCII.
            UInt8(ascii: "0")...UInt8(ascii: ":"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), 0x80...0xFF:
            return true
        default:
            return false
        }
    }

    private static func endOfDeclaration(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        var quote: UInt8?
        for index in start..<bytes.count {
            switch (bytes[index], quote) {
            case (UInt8(ascii: ">"), nil): return index + 1
            case (UInt8(ascii: "\""), nil), (UInt8(ascii: "'"), nil): quote = bytes[index]
            case (let byte, let open?) where byte == open: quote = nil
            default: break
            }
        }
        return bytes.count
    }

    private static func hasWord(_ word: StaticString, in bytes: UnsafeRawBufferPointer, at index: Int) -> Bool {
        guard let base = bytes.baseAddress, index + word.utf8CodeUnitCount <= bytes.count else { return false }
        return memcmp(base + index, word.utf8Start, word.utf8CodeUnitCount) == 0
    }

    private static func find(_ word: StaticString, in bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard let base = bytes.baseAddress else { return nil }
        var index = start
        while index < bytes.count, let found = memchr(base + index, Int32(word.utf8Start[0]), bytes.count - index) {
            index = UnsafeRawPointer(found) - base
            if hasWord(word, in: bytes, at: index) { return index }
            index += 1
        }
        return nil
    }
}
