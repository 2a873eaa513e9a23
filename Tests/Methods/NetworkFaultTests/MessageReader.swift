/// A parser of HTTP/1.1 responses by RFC 9112, independent of libcurl and of Convoy, which determines the meaning of
/// damaged bytes.
struct MessageReader {
    /// The meaning of the bytes.
    enum Reading: Equatable {
        case response(Response)
        /// The head is complete, and more bytes of the body are expected.
        case head(Response)
        /// More bytes of the head are expected.
        case incomplete
        case invalid
    }

    struct Response: Equatable {
        var status = 0
        /// The fields, with names in lowercase.
        var fields: [Field] = []
        /// The body without the chunked framing, but still encoded.
        var body: [UInt8] = []
        /// Whether the body ends only with the connection.
        var isEndedByConnection = false
        /// The number of bytes after the response.
        var rest = 0

        func values(_ name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }
    }

    struct Field: Equatable {
        var name: String
        var value: String
    }

    /// The freedom of a parser in handling bytes that no server should send (RFC 9112, sections 2.2 and 5).
    struct Leniency {
        /// Lines may end with LF alone.
        var takesBareLF = true
        /// Control characters and invalid names and versions are accepted, and anything after a chunk size is ignored.
        var takesAnyCharacter = true
        /// Names may end with whitespace.
        var trimsNames = false

        static let strict = Leniency(takesBareLF: false, takesAnyCharacter: false)
        static let all = [Leniency(), Leniency(trimsNames: true)]
    }

    private let bytes: [UInt8]
    private let leniency: Leniency
    private var position = 0

    /// - Parameter hasEnded: Whether the connection ends after the bytes.
    static func read(_ bytes: [UInt8], to method: String, hasEnded: Bool, _ leniency: Leniency) -> Reading {
        var reader = MessageReader(bytes: bytes, leniency: leniency)
        return reader.read(to: method, hasEnded: hasEnded)
    }

    private init(bytes: [UInt8], leniency: Leniency) { (self.bytes, self.leniency) = (bytes, leniency) }

    private enum Line {
        case text([UInt8])
        case incomplete
        case invalid
    }

    private mutating func line() -> Line {
        guard let end = bytes[position...].firstIndex(of: 10) else { return .incomplete }
        var text = Array(bytes[position..<end])
        position = end + 1
        if text.last == 13 { text.removeLast() } else if !leniency.takesBareLF { return .invalid }
        return .text(text)
    }

    private mutating func read(to method: String, hasEnded: Bool) -> Reading {
        while true {
            var response = Response()
            switch head(&response) {
            case .response where response.status == 101: return .invalid
            case .response where response.status < 200: continue
            case .response: return body(of: response, to: method, hasEnded: hasEnded)
            case let other: return other
            }
        }
    }

    private mutating func head(_ response: inout Response) -> Reading {
        switch line() {
        case .incomplete: return .incomplete
        case .invalid: return .invalid
        case .text(let text):
            guard let status = status(of: text) else { return .invalid }
            response.status = status
        }
        var lines: [[UInt8]] = []
        while true {
            switch line() {
            case .incomplete: return .incomplete
            case .invalid: return .invalid
            case .text(let text) where text.isEmpty:
                response.fields = lines.compactMap(field)
                return response.fields.count == lines.count ? .response(response) : .invalid
            case .text(let text):
                if text[0] == 32 || text[0] == 9 {
                    guard leniency.takesAnyCharacter, !lines.isEmpty else { return .invalid }
                    // Newer libcurl versions look for the colon in the complete line.
                    lines[lines.count - 1] += [32] + Self.trimmed(text[...])
                } else {
                    lines.append(text)
                }
            }
        }
    }

    private func status(of line: [UInt8]) -> Int? {
        guard line.count >= 12, line.starts(with: "HTTP/".utf8), Self.isDigit(line[5]), line[6] == 46,
            Self.isDigit(line[7]), line[8] == 32, line[9...11].allSatisfy(Self.isDigit)
        else { return nil }
        if !leniency.takesAnyCharacter {
            guard line[5] == 49, line[7] <= 49, line.count > 12, line[12] == 32, line[13...].allSatisfy(Self.isOfValue)
            else { return nil }
        }
        let status = line[9...11].reduce(0) { $0 * 10 + Int($1 - 48) }
        return status >= 100 ? status : nil
    }

    private func field(_ line: [UInt8]) -> Field? {
        guard let colon = line.firstIndex(of: 58) else { return nil }
        var name = line[..<colon]
        if leniency.trimsNames { name = Self.trimmed(name) }
        let value = Self.trimmed(line[(colon + 1)...])
        if !leniency.takesAnyCharacter {
            guard !name.isEmpty, name.allSatisfy(Self.isOfToken), value.allSatisfy(Self.isOfValue) else { return nil }
        }
        return Field(name: Self.text(name).lowercased(), value: Self.text(value))
    }

    // MARK: Bodies (RFC 9112, section 6.3)

    private mutating func body(of response: Response, to method: String, hasEnded: Bool) -> Reading {
        var response = response
        let lengths = response.values("content-length"), codings = response.values("transfer-encoding")
        var length: Int?
        for text in lengths.flatMap({ $0.split(separator: ",", omittingEmptySubsequences: false) }) {
            let digits = text.utf8.filter { $0 != 32 && $0 != 9 }
            guard !digits.isEmpty, digits.count < 18, digits.allSatisfy(Self.isDigit) else { return .invalid }
            let value = digits.reduce(0) { $0 * 10 + Int($1 - 48) }
            guard length == nil || length == value else { return .invalid }
            length = value
        }
        if !codings.isEmpty, codings.map({ $0.lowercased() }) != ["chunked"] { return .invalid }
        if method == "HEAD" || response.status == 204 || response.status == 304 {
            response.rest = bytes.count - position
        } else if !codings.isEmpty {
            guard length == nil || leniency.takesAnyCharacter else { return .invalid }
            switch chunks() {
            case .text(let body): response.body = body
            case .incomplete: return .head(response)
            case .invalid: return .invalid
            }
            response.rest = bytes.count - position
        } else if let length {
            guard bytes.count - position >= length else { return .head(response) }
            response.body = Array(bytes[position..<(position + length)])
            response.rest = bytes.count - position - length
        } else {
            guard hasEnded else { return .head(response) }
            response.body = Array(bytes[position...])
            response.isEndedByConnection = true
        }
        return .response(response)
    }

    private mutating func chunks() -> Line {
        var body: [UInt8] = []
        while true {
            let size: Int
            switch line() {
            case .text(let text):
                let digits = text.prefix(while: Self.isHex)
                let rest = Self.trimmed(text[digits.endIndex...])
                guard (1...8).contains(digits.count), rest.isEmpty || rest.first == 59 || leniency.takesAnyCharacter else {
                    return .invalid
                }
                size = digits.reduce(0) { $0 * 16 + (Int(String(UnicodeScalar($1)), radix: 16) ?? 0) }
            case let other: return other
            }
            if size == 0 { break }
            guard bytes.count - position >= size + 1 else { return .incomplete }
            body += bytes[position..<(position + size)]
            position += size
            switch line() {
            case .text(let text) where text.isEmpty: break
            case .text, .invalid: return .invalid
            case .incomplete: return bytes.count - position < 2 ? .incomplete : .invalid
            }
        }
        while true {
            switch line() {
            case .text(let text) where text.isEmpty: return .text(body)
            case .text(let text): if field(text) == nil, !leniency.takesAnyCharacter { return .invalid }
            case let other: return other
            }
        }
    }

    // MARK: Characters

    private static func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) }
    private static func isHex(_ byte: UInt8) -> Bool {
        isDigit(byte) || (65...70).contains(byte) || (97...102).contains(byte)
    }
    private static func isOfToken(_ byte: UInt8) -> Bool {
        isDigit(byte) || (65...90).contains(byte) || (97...122).contains(byte) || "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
    private static func isOfValue(_ byte: UInt8) -> Bool { byte == 9 || byte >= 32 && byte != 127 }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var bytes = bytes
        while let first = bytes.first, first == 32 || first == 9 { bytes.removeFirst() }
        while let last = bytes.last, last == 32 || last == 9 { bytes.removeLast() }
        return bytes
    }

    private static func text(_ bytes: ArraySlice<UInt8>) -> String {
        String(String.UnicodeScalarView(bytes.map { UnicodeScalar($0) }))
    }
}
