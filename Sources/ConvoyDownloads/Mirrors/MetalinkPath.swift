import ConvoySupport

/// The names of files in a Metalink.
enum MetalinkPath {
    private static let maximumLength = 4096
    private static let maximumComponentCount = 32

    /// The safe components of a name.
    ///
    /// RFC 5854, section 4.1.2.1, forbids names that are absolute or lead upwards. A document with one is damaged or
    /// hostile, so that it is refused rather than corrected; `\` is a separator to some.
    static func components(of name: String, line: Int) throws(MetalinkError) -> [String] {
        let parts = name.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard name.utf8.count <= maximumLength, parts.count <= maximumComponentCount, !name.utf8.contains(UInt8(ascii: "\\"))
        else { throw .unsafeName(MetalinkAttributes.shown(name.utf8), line: line) }
        var components: [String] = []
        for part in parts {
            guard !part.isEmpty, !part.elementsEqual(".".utf8), !part.elementsEqual("..".utf8),
                let safe = FileName.safe(String(decoding: part, as: UTF8.self))
            else { throw .unsafeName(MetalinkAttributes.shown(name.utf8), line: line) }
            components.append(safe)
        }
        return components
    }
}
