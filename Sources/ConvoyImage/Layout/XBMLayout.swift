#if Images
extension ImageLayout {
    /// X bitmap: C source, with the size in two definitions and the bits in one array.
    ///
    /// The decoder makes room by the definitions and fills it from the array, so the array has to be long enough. It
    /// reads from a temporary file of its own, which it removes.
    static func xbm(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let brace = try body.first(0x7B, from: 0)
        // A page of definitions and comments is generous.
        guard brace <= 4096 else { throw .malformed("too long a header") }
        var sizes: [String: Int] = [:]
        let header = body.text(0..<brace)
        for line in header.split(whereSeparator: \.isNewline) {
            let words = line.split { $0 == " " || $0 == "\t" }
            guard words.count >= 3, words[0] == "#define", let value = Int(words[2]) else { continue }
            let name = words[1].split(separator: "_").last.map(String.init) ?? ""
            guard sizes.updateValue(value, forKey: name) == nil else { throw .malformed("a definition twice") }
        }
        guard let width = sizes["width"], let height = sizes["height"] else { throw .malformed("no size") }
        try limits.check(width: width, height: height)

        let end = try body.first(0x7D, from: brace)
        let isShort = header.contains(" short ")
        let needed = isShort ? (width + 15) / 16 * height : (width + 7) / 8 * height
        guard try numbers(body, from: brace + 1, to: end) >= needed else { throw .truncated }
        return ImageLayout(.xbm, width: width, height: height, pieces: [.range(0..<body.count)])
    }

    /// How many numbers there are between commas and spaces.
    private static func numbers(_ body: ImageBytes, from start: Int, to end: Int) throws(ImageFault) -> Int {
        var count = 0
        var isInside = false
        for offset in start..<end {
            switch try body.byte(offset) {
            case 0x30...0x39, 0x41...0x46, 0x61...0x66, 0x58, 0x78:
                if !isInside { count += 1 }
                isInside = true
            case 0x20, 0x2C, 0x09, 0x0A, 0x0D:
                isInside = false
            default:
                throw .malformed("something else than numbers")
            }
        }
        return count
    }
}
#endif
