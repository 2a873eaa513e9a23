#if Images
extension ImageLayout {
    /// X bitmap: C source, with the size in two definitions and the bits in an array.
    static func xbm(_ body: ImageBytes, limits: ImageLimits) throws(ImageFault) -> ImageLayout {
        let brace = try body.first(0x7B, from: 0)
        // A generous limit for definitions and comments.
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
        // X10 wrote numbers of two bytes.
        var layout = ImageLayout(.xbm, width: width, height: height, pieces: [.range((brace + 1)..<end)])
        layout.bitsPerNumber = header.contains(" short ") ? 16 : 8
        return layout
    }
}
#endif
