/// A decoder of HTTP/2 heads by RFC 7541, independent of nghttp2.
struct HPACKDecoder {
    struct Field: Equatable {
        var name: String
        var value: String
    }

    private var dynamic: [Field] = []
    private var limit = 4096

    /// Returns the fields of a block; nil if it is invalid.
    mutating func decode(_ block: [UInt8]) -> [Field]? {
        var (fields, position): ([Field], Int) = ([], 0)
        while position < block.count {
            let byte = block[position]
            if byte & 0x80 != 0 {
                guard let index = Self.number(block, &position, bits: 7), let field = field(index) else { return nil }
                fields.append(field)
            } else if byte & 0xE0 == 0x20 {
                guard let size = Self.number(block, &position, bits: 5), size <= 4096, fields.isEmpty else { return nil }
                limit = size
                evict()
            } else {
                let isKept = byte & 0xC0 == 0x40
                guard let index = Self.number(block, &position, bits: isKept ? 6 : 4) else { return nil }
                var name: String?
                if index == 0 { name = Self.text(block, &position) } else { name = field(index)?.name }
                guard let name, let value = Self.text(block, &position) else { return nil }
                fields.append(Field(name: name, value: value))
                if isKept {
                    dynamic.insert(Field(name: name, value: value), at: 0)
                    evict()
                }
            }
        }
        return fields
    }

    private func field(_ index: Int) -> Field? {
        guard index > 0 else { return nil }
        if index <= Self.fixed.count { return Self.fixed[index - 1] }
        let index = index - Self.fixed.count - 1
        return index < dynamic.count ? dynamic[index] : nil
    }

    private mutating func evict() {
        var size = dynamic.reduce(0) { $0 + $1.name.unicodeScalars.count + $1.value.unicodeScalars.count + 32 }
        while size > limit {
            let last = dynamic.removeLast()
            size -= last.name.unicodeScalars.count + last.value.unicodeScalars.count + 32
        }
    }

    /// Decodes an integer (section 5.1).
    private static func number(_ block: [UInt8], _ position: inout Int, bits: Int) -> Int? {
        guard position < block.count else { return nil }
        let mask = 1 << bits - 1
        var value = Int(block[position]) & mask
        position += 1
        guard value == mask else { return value }
        var shift = 0
        while position < block.count, shift < 28 {
            let byte = Int(block[position])
            position += 1
            value += (byte & 127) << shift
            if byte & 128 == 0 { return value }
            shift += 7
        }
        return nil
    }

    /// Decodes a string (section 5.2), with one character per byte.
    private static func text(_ block: [UInt8], _ position: inout Int) -> String? {
        guard position < block.count else { return nil }
        let isCoded = block[position] & 128 != 0
        guard let count = number(block, &position, bits: 7), count <= block.count - position else { return nil }
        defer { position += count }
        let bytes = Array(block[position..<(position + count)])
        guard let plain = isCoded ? decodeHuffman(bytes) : bytes else { return nil }
        return String(String.UnicodeScalarView(plain.map { UnicodeScalar($0) }))
    }

    private static func decodeHuffman(_ bytes: [UInt8]) -> [UInt8]? {
        var plain: [UInt8] = []
        var (code, length) = (0, 0)
        for byte in bytes {
            for bit in (0..<8).reversed() {
                code = code << 1 | Int(byte >> UInt8(bit)) & 1
                length += 1
                let row = rows[min(length, 30)]
                guard length <= 30 else { return nil }
                if code >= row.first, code - row.first < row.symbols.count {
                    let symbol = row.symbols[code - row.first]
                    guard symbol < 256 else { return nil }
                    plain.append(UInt8(symbol))
                    (code, length) = (0, 0)
                }
            }
        }
        // The rest is a prefix of the longest code, which consists of ones.
        return length < 8 && code == 1 << length - 1 ? plain : nil
    }

    /// The codes of one length, which are consecutive.
    private struct Row {
        var first = 0
        var symbols: [Int] = []
    }

    /// The Huffman code (appendix B), derived from the lengths: shorter codes come first, and equal ones in the order
    /// of symbols.
    private static let rows: [Row] = {
        var rows = [Row](repeating: Row(), count: 31)
        for (symbol, length) in lengths.enumerated() { rows[length].symbols.append(symbol) }
        var code = 0
        for length in 1...30 {
            code <<= 1
            rows[length].first = code
            code += rows[length].symbols.count
        }
        return rows
    }()

    /// The lengths of the codes of all bytes and of the end.
    private static let lengths: [Int] = {
        let text = """
            13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28 6 10 10 12 13
            6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7
            8 7 8 13 19 13 14 6 15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28 20 22 20 20 22 22 22
            23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24 22 21 20 22 22 23 23 21 23 22 22 24
            21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23 26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19
            21 26 27 27 26 27 24 21 21 26 26 28 27 27 27 20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27
            27 27 27 28 27 27 27 27 27 26 30
            """
        return text.split { $0 == " " || $0 == "\n" }.compactMap { Int($0) }
    }()

    /// The static table (appendix A).
    private static let fixed: [Field] = {
        let text = """
            :authority;:method GET;:method POST;:path /;:path /index.html;:scheme http;:scheme https;:status 200;:status 204
            :status 206;:status 304;:status 400;:status 404;:status 500;accept-charset;accept-encoding gzip, deflate
            accept-language;accept-ranges;accept;access-control-allow-origin;age;allow;authorization;cache-control
            content-disposition;content-encoding;content-language;content-length;content-location;content-range;content-type
            cookie;date;etag;expect;expires;from;host;if-match;if-modified-since;if-none-match;if-range;if-unmodified-since
            last-modified;link;location;max-forwards;proxy-authenticate;proxy-authorization;range;referer;refresh;retry-after
            server;set-cookie;strict-transport-security;transfer-encoding;user-agent;vary;via;www-authenticate
            """
        return text.split { $0 == ";" || $0 == "\n" }.map { entry in
            let words = entry.split(separator: " ", maxSplits: 1)
            return Field(name: String(words[0]), value: words.count > 1 ? String(words[1]) : "")
        }
    }()
}
