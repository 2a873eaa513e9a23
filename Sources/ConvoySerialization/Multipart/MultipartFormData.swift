import ConvoySupport
import Foundation
import FoundationNetworking

/// The parts of a `multipart/form-data` body (RFC 7578). The counterpart of `AFMultipartFormData`.
///
/// Files are read while the body is being sent, in constant memory. If a part cannot be sent, for example because its
/// media type contains a line break, creating the request throws.
///
/// Names and file names are escaped according to the WHATWG HTML standard (section 4.10.21.8): `"` becomes `%22`, line
/// breaks become `%0D` and `%0A`, and all other characters are sent as UTF-8.
public struct MultipartFormData {
    /// The separator between the parts. It is random, so that no part can be crafted to contain it.
    public let boundary: String

    /// The maximum number of bytes per read of the body; `Int.max` for no limit.
    public private(set) var packetSize = Int.max
    /// The pause of the transfer after each packet, in seconds.
    public private(set) var delay: TimeInterval = 0

    /// A packet size for slow mobile networks, in bytes. The counterpart of `kAFUploadStream3GSuggestedPacketSize`.
    public static let suggestedPacketSize = 16_384
    /// A delay for slow mobile networks, in seconds. The counterpart of `kAFUploadStream3GSuggestedDelay`.
    public static let suggestedDelay: TimeInterval = 0.2

    private(set) var parts: [MultipartPart] = []
    private(set) var failure: NSError?

    init(boundary: String = MultipartFormData.randomBoundary()) { self.boundary = boundary }

    static func randomBoundary() -> String {
        func hexadecimal(_ value: UInt32) -> String {
            let digits = String(value, radix: 16, uppercase: true)
            return String(repeating: "0", count: 8 - digits.count) + digits
        }
        // The system's generator is unpredictable, even if earlier boundaries are known.
        var generator = SystemRandomNumberGenerator()
        return "Boundary+\(hexadecimal(generator.next()))\(hexadecimal(generator.next()))"
    }

    // MARK: Parts

    /// Appends data: a value, which has only a name, or a file, which also has a file name and a media type.
    ///
    /// ```swift
    /// form.append(data: Data("Dawn".utf8), name: "title")
    /// form.append(data: photo, name: "photo", fileName: "dawn.jpg")
    /// ```
    ///
    /// - Parameters:
    ///   - data: The content of the part.
    ///   - name: The name of the field.
    ///   - fileName: The name of the file; nil for a value.
    ///   - mimeType: The media type; nil for the type of the file name's extension, or for none without a file name.
    public mutating func append(data: Data, name: String, fileName: String? = nil, mimeType: String? = nil) {
        var fields = fields(name: name)
        if let fileName {
            let type = MIMEType.type(forPathExtension: (fileName as NSString).pathExtension)
            fields = self.fields(name: name, fileName: fileName, mimeType: mimeType ?? type)
        } else if let mimeType {
            fields.append(("Content-Type", mimeType))
        }
        append(fields, .data(data))
    }

    /// Appends a value, as a part that has only a name. The counterpart of `appendPartWithFormData:name:`.
    public mutating func appendPart(formData data: Data, name: String) {
        append(fields(name: name), .data(data))
    }

    /// Appends a file from memory. The counterpart of `appendPartWithFileData:name:fileName:mimeType:`.
    public mutating func appendPart(fileData data: Data, name: String, fileName: String, mimeType: String) {
        append(fields(name: name, fileName: fileName, mimeType: mimeType), .data(data))
    }

    /// Appends a file from disk, with its own name and the media type for its extension. The counterpart of
    /// `appendPartWithFileURL:name:error:`.
    ///
    /// - Throws: The errors of ``appendPart(fileURL:name:fileName:mimeType:)``.
    public mutating func appendPart(fileURL: URL, name: String) throws {
        let type = MIMEType.type(forPathExtension: fileURL.pathExtension)
        try appendPart(fileURL: fileURL, name: name, fileName: fileURL.lastPathComponent, mimeType: type)
    }

    /// Appends a file from disk. The counterpart of `appendPartWithFileURL:name:fileName:mimeType:error:`.
    ///
    /// The file's length is read immediately. If it has a different length when it is sent, the transfer fails.
    ///
    /// - Throws: `NSURLErrorBadURL` (-1000) in ``URLRequestSerializationErrorDomain`` with the reason "Expected URL to
    ///   be a file URL" or "File URL not reachable." The latter is also the reason if the file is not a regular file.
    public mutating func appendPart(fileURL: URL, name: String, fileName: String, mimeType: String) throws {
        let file = try FileSource(url: fileURL)
        append(fields(name: name, fileName: fileName, mimeType: mimeType), .file(file))
    }

    /// Appends a file from a stream, of which `length` bytes are sent. The counterpart of
    /// `appendPartWithInputStream:name:fileName:length:mimeType:`.
    ///
    /// A stream can be read only once. Unless it is a ``ReplayableBodyStream``, a redirect or an authentication that
    /// needs the body again fails. To avoid that, pass a closure that creates streams. If the stream ends before
    /// `length` bytes, the transfer fails; bytes beyond `length` are not read.
    public mutating func appendPart(
        inputStream: InputStream, name: String, fileName: String, length: Int64, mimeType: String
    ) {
        append(
            fields(name: name, fileName: fileName, mimeType: mimeType),
            .stream(StreamSource(inputStream, length: length)))
    }

    /// Appends a file from a stream that is created again each time the body is sent.
    public mutating func appendPart(
        name: String, fileName: String, length: Int64, mimeType: String,
        makingStream: @escaping @Sendable () throws -> InputStream
    ) {
        append(
            fields(name: name, fileName: fileName, mimeType: mimeType),
            .stream(StreamSource(length: length, making: makingStream)))
    }

    /// Appends a part with the given headers, sorted by name, and a body. The counterpart of
    /// `appendPartWithHeaders:body:`.
    public mutating func appendPart(headers: [String: String], body: Data) {
        append(headers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }, .data(body))
    }

    /// Limits the upload to `packetSize` bytes per `delay` seconds on average, and to no less than one byte per second.
    /// The counterpart of `throttleBandwidthWithPacketSize:delay:`.
    ///
    /// The bytes are spread evenly, and no thread sleeps. See ``ThrottledBodyStream``.
    public mutating func throttleBandwidth(packetSize: Int, delay: TimeInterval) {
        guard packetSize > 0, delay >= 0, delay.isFinite else {
            fail("The packet size must be positive, and the delay must be a finite, non-negative number of seconds.")
            return
        }
        self.packetSize = packetSize
        self.delay = delay
    }

    // MARK: Headers of parts

    private func fields(name: String) -> [(String, String)] {
        [("Content-Disposition", "form-data; name=\"\(MultipartFormData.escapedName(name))\"")]
    }

    private func fields(name: String, fileName: String, mimeType: String) -> [(String, String)] {
        let file = MultipartFormData.escape(fileName)
        let disposition = "form-data; name=\"\(MultipartFormData.escapedName(name))\"; filename=\"\(file)\""
        return [("Content-Disposition", disposition), ("Content-Type", mimeType)]
    }

    private mutating func append(_ headers: [(String, String)], _ body: MultipartPart.Body) {
        for (name, value) in headers where !HTTPSyntax.isToken(name) || !HTTPSyntax.isFieldValue(value) {
            fail("The header \(name) of a part has an invalid name or value.", subject: name)
        }
        if case .stream(let source) = body, source.length < 0 { fail("The length of a part must not be negative.") }
        parts.append(MultipartPart(headers: headers, body: body))
    }

    /// Keeps the first failure, which is thrown when the request is created.
    private mutating func fail(_ reason: String, subject: String? = nil) {
        if failure == nil { failure = .request(.invalidPart, reason, subject: subject) }
    }

    /// Escapes a name. In field names, line breaks are first normalized to CRLF, as the standard requires. In file
    /// names, they are not.
    static func escapedName(_ name: String) -> String {
        guard needsEscape(name) else { return name }
        var text = ""
        var afterReturn = false
        for scalar in name.unicodeScalars {
            if afterReturn && scalar != "\n" { text.unicodeScalars.append("\n") }
            if scalar == "\n" && !afterReturn { text.unicodeScalars.append("\r") }
            text.unicodeScalars.append(scalar)
            afterReturn = scalar == "\r"
        }
        if afterReturn { text.unicodeScalars.append("\n") }
        return escape(text)
    }

    private static func needsEscape(_ text: String) -> Bool {
        text.utf8.contains { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") }
    }

    static func escape(_ text: String) -> String {
        guard needsEscape(text) else { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "%22"
            case "\r": result += "%0D"
            case "\n": result += "%0A"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}

/// A part of a form: its headers and the source of its bytes.
struct MultipartPart {
    enum Body {
        case data(Data)
        case file(FileSource)
        case stream(StreamSource)

        var length: Int64 {
            switch self {
            case .data(let data): Int64(data.count)
            case .file(let file): file.length
            case .stream(let stream): stream.length
            }
        }
    }

    let headers: [(String, String)]
    let body: Body
}

/// An entire body, as a list of consecutive pieces.
struct MultipartLayout {
    let pieces: [MultipartPart.Body]
    /// The exact length, in bytes.
    let length: Int64

    /// Creates the layout of a form.
    ///
    /// - Throws: An error if the sum of the lengths exceeds 64 bits.
    init(parts: [MultipartPart], boundary: String) throws {
        var pieces: [MultipartPart.Body] = []
        var pending = ""
        for (index, part) in parts.enumerated() {
            pending += index == 0 ? "--\(boundary)\r\n" : "\r\n--\(boundary)\r\n"
            for (name, value) in part.headers { pending += "\(name): \(value)\r\n" }
            pending += "\r\n"
            pieces.append(.data(Data(pending.utf8)))
            pieces.append(part.body)
            pending = ""
        }
        if !parts.isEmpty { pieces.append(.data(Data("\r\n--\(boundary)--\r\n".utf8))) }

        try self.init(pieces: pieces)
    }

    /// Creates a layout of consecutive pieces.
    ///
    /// - Throws: An error if the sum of the lengths exceeds 64 bits.
    init(pieces: [MultipartPart.Body]) throws {
        var length: Int64 = 0
        for piece in pieces {
            let sum = length.addingReportingOverflow(piece.length)
            guard !sum.overflow else { throw NSError.request(.invalidPart, "The body is too long to be counted.") }
            length = sum.partialValue
        }
        self.pieces = pieces
        self.length = length
    }
}

/// Media types of files, by extension.
///
/// The table is the system's `/etc/mime.types` (from Debian's `media-types`), read once on first use. The most common
/// types are built in, for systems without this file and for types that it omits.
public enum MIMEType {
    /// The media type for unknown types of files.
    public static let unknown = "application/octet-stream"

    /// Returns the media type for an extension, in any case and without the dot; ``unknown`` for unknown extensions.
    public static func type(forPathExtension pathExtension: String) -> String {
        table[pathExtension.lowercased()] ?? unknown
    }

    private static let table: [String: String] = {
        var table = builtIn
        if let text = try? String(contentsOfFile: "/etc/mime.types", encoding: .utf8) {
            table.merge(parse(text)) { _, system in system }
        }
        // Apple's type, which AFNetworking sends. A certificate may be in PEM format, which `application/pkix-cert`
        // does not include.
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

    /// Parses a table in the `mime.types` format: a type, followed by its extensions. If an extension is repeated, the
    /// first line is used.
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
