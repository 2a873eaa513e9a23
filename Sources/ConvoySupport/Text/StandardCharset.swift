import Foundation

/// An encoding of the WHATWG Encoding Standard: its name, its labels, and how Convoy decodes it.
///
/// The labels are those of section 4.2. Many of them denote a superset that is used in practice: `iso-8859-1` and
/// `us-ascii` are windows-1252, `gb2312` is GBK, `tis-620` is windows-874.
package struct StandardCharset: Sendable {
    enum Decoder: Sendable {
        case utf8
        /// The charset with this iconv name.
        case iconv(String)
        /// A single-byte charset; see ``SingleByteTable``.
        case singleByte(String)
        case gb18030
        case big5
        case eucJP
        case iso2022JP
        /// The charset whose bytes from 0x80 on decode to U+F780 to U+F7FF (section 14.5).
        case userDefined
        /// A charset that is never decoded, because its bytes can hide ASCII, for example markup (section 14.1).
        case replacement
    }

    package let name: String
    let decoder: Decoder
    /// The nearest Foundation encoding.
    let encoding: String.Encoding?
    /// The labels, in lower case.
    package let labels: [Substring]

    private init(_ name: String, _ decoder: Decoder, _ encoding: String.Encoding?, _ labels: String) {
        self.name = name
        self.decoder = decoder
        self.encoding = encoding
        self.labels = labels.split(separator: " ")
    }

    private init(_ name: String, _ decoder: Decoder, _ labels: String) { self.init(name, decoder, nil, labels) }

    /// Returns the encoding for a label in lower case.
    static func labelled(_ label: String) -> StandardCharset? { byLabel[label].map { all[$0] } }

    /// Returns the standard encoding that corresponds to a Foundation encoding.
    static func of(_ encoding: String.Encoding) -> StandardCharset? { all.first { $0.encoding == encoding } }

    private static let byLabel: [String: Int] = {
        var result: [String: Int] = [:]
        for (index, charset) in all.enumerated() {
            for label in charset.labels { result[String(label)] = index }
        }
        return result
    }()

    package static let all: [StandardCharset] = [
        StandardCharset(
            "UTF-8", .utf8, .utf8, "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8"),

        // Single-byte encodings.
        StandardCharset("IBM866", .singleByte("CP866"), "866 cp866 csibm866 ibm866"),
        StandardCharset(
            "ISO-8859-2", .singleByte("ISO-8859-2"), .isoLatin2,
            "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2"),
        StandardCharset(
            "ISO-8859-3", .singleByte("ISO-8859-3"),
            "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3"),
        StandardCharset(
            "ISO-8859-4", .singleByte("ISO-8859-4"),
            "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4"),
        StandardCharset(
            "ISO-8859-5", .singleByte("ISO-8859-5"),
            "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988"),
        StandardCharset(
            "ISO-8859-6", .singleByte("ISO-8859-6"),
            """
            arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e iso-8859-6-i \
            iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987
            """),
        StandardCharset(
            "ISO-8859-7", .singleByte("ISO-8859-7"),
            """
            csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 \
            iso_8859-7:1987 sun_eu_greek
            """),
        StandardCharset(
            "ISO-8859-8", .singleByte("ISO-8859-8"),
            """
            csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 \
            iso_8859-8:1988 visual
            """),
        StandardCharset("ISO-8859-8-I", .singleByte("ISO-8859-8"), "csiso88598i iso-8859-8-i logical"),
        StandardCharset(
            "ISO-8859-10", .singleByte("ISO-8859-10"),
            "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6"),
        StandardCharset("ISO-8859-13", .singleByte("ISO-8859-13"), "iso-8859-13 iso8859-13 iso885913"),
        StandardCharset("ISO-8859-14", .singleByte("ISO-8859-14"), "iso-8859-14 iso8859-14 iso885914"),
        StandardCharset(
            "ISO-8859-15", .singleByte("ISO-8859-15"),
            "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9"),
        StandardCharset("ISO-8859-16", .singleByte("ISO-8859-16"), "iso-8859-16"),
        StandardCharset("KOI8-R", .singleByte("KOI8-R"), "cskoi8r koi koi8 koi8-r koi8_r"),
        StandardCharset("KOI8-U", .singleByte("KOI8-U"), "koi8-ru koi8-u"),
        StandardCharset("macintosh", .singleByte("MACINTOSH"), .macOSRoman, "csmacintosh mac macintosh x-mac-roman"),
        StandardCharset(
            "windows-874", .singleByte("CP874"), "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874"),
        StandardCharset("windows-1250", .singleByte("CP1250"), .windowsCP1250, "cp1250 windows-1250 x-cp1250"),
        StandardCharset("windows-1251", .singleByte("CP1251"), .windowsCP1251, "cp1251 windows-1251 x-cp1251"),
        StandardCharset(
            "windows-1252", .singleByte("CP1252"), .windowsCP1252,
            """
            ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 \
            iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252
            """),
        StandardCharset("windows-1253", .singleByte("CP1253"), .windowsCP1253, "cp1253 windows-1253 x-cp1253"),
        StandardCharset(
            "windows-1254", .singleByte("CP1254"), .windowsCP1254,
            """
            cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 \
            windows-1254 x-cp1254
            """),
        StandardCharset("windows-1255", .singleByte("CP1255"), "cp1255 windows-1255 x-cp1255"),
        StandardCharset("windows-1256", .singleByte("CP1256"), "cp1256 windows-1256 x-cp1256"),
        StandardCharset("windows-1257", .singleByte("CP1257"), "cp1257 windows-1257 x-cp1257"),
        StandardCharset("windows-1258", .singleByte("CP1258"), "cp1258 windows-1258 x-cp1258"),
        StandardCharset("x-mac-cyrillic", .singleByte("MAC-UK"), "x-mac-cyrillic x-mac-ukrainian"),

        // Multibyte encodings.
        StandardCharset(
            "GBK", .gb18030, "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk"),
        StandardCharset("gb18030", .gb18030, "gb18030"),
        StandardCharset("Big5", .big5, "big5 big5-hkscs cn-big5 csbig5 x-x-big5"),
        StandardCharset("EUC-JP", .eucJP, .japaneseEUC, "cseucpkdfmtjapanese euc-jp x-euc-jp"),
        StandardCharset("ISO-2022-JP", .iso2022JP, .iso2022JP, "csiso2022jp iso-2022-jp"),
        StandardCharset(
            "Shift_JIS", .iconv("CP932"), .shiftJIS,
            "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis"),
        StandardCharset(
            "EUC-KR", .iconv("CP949"),
            """
            cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949
            """),

        // Others.
        StandardCharset(
            "replacement", .replacement, "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement"),
        StandardCharset("UTF-16BE", .iconv("UTF-16BE"), .utf16BigEndian, "unicodefffe utf-16be"),
        StandardCharset(
            "UTF-16LE", .iconv("UTF-16LE"), .utf16LittleEndian,
            "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le"),
        StandardCharset("x-user-defined", .userDefined, "x-user-defined"),
    ]
}
