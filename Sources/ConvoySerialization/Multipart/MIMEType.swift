import ConvoySupport
import Foundation

/// Media types of files by their extension.
///
/// The table is the system's (`/etc/mime.types`, from Debian's `media-types`), read once on first use. The most common
/// types are built in, for systems without a table and for what it omits.
public enum MIMEType {
    /// The type of a file of unknown type.
    public static let unknown = "application/octet-stream"

    /// The media type for an extension, without the dot and in any case; ``unknown`` if there is none.
    public static func type(forPathExtension pathExtension: String) -> String {
        table[pathExtension.lowercased()] ?? unknown
    }

    private static let table: [String: String] = {
        var table = builtIn
        if let text = try? String(contentsOfFile: "/etc/mime.types", encoding: .utf8) {
            table.merge(parse(text)) { _, system in system }
        }
        // Apple's type, which AFNetworking sends. A certificate may be in PEM, which `application/pkix-cert` is not.
        table["cer"] = "application/x-x509-ca-cert"
        return table
    }()

    static let builtIn: [String: String] = parse(
        """
        application/gzip gz
        application/json json
        application/pdf pdf
        application/vnd.openxmlformats-officedocument.presentationml.presentation pptx
        application/vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx
        application/vnd.openxmlformats-officedocument.wordprocessingml.document docx
        application/vnd.sqlite3 sqlite sqlite3 db
        application/x-plist plist
        application/x-tar tar
        application/xml xml
        application/yaml yaml yml
        application/zip zip
        audio/mp4 m4a
        audio/mpeg mp3
        audio/ogg ogg oga opus
        audio/x-wav wav
        image/bmp bmp
        image/gif gif
        image/heic heic
        image/jpeg jpeg jpg
        image/png png
        image/svg+xml svg
        image/tiff tiff tif
        image/vnd.microsoft.icon ico
        image/webp webp
        text/css css
        text/csv csv
        text/html html htm
        text/javascript js
        text/markdown md
        text/plain txt log
        video/mp4 mp4 m4v
        video/quicktime mov
        video/webm webm
        """)

    /// Parses a table in the format of `mime.types`: a type, then its extensions. The first line with an extension
    /// counts.
    static func parse(_ text: String) -> [String: String] {
        var table: [String: String] = [:]
        for line in text.utf8.split(separator: UInt8(ascii: "\n")) {
            let words = line.prefix { $0 != UInt8(ascii: "#") }
                .split { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }
            guard words.count > 1, let type = words.first.map({ String(Substring($0)) }) else { continue }
            guard type.utf8.contains(UInt8(ascii: "/")), HTTPSyntax.isFieldValue(type) else { continue }
            for word in words.dropFirst() {
                let name = String(Substring(word)).lowercased()
                if table[name] == nil { table[name] = type }
            }
        }
        return table
    }
}
