import Foundation

/// Spellings of schemes and hosts, for tests of decisions about them.
public enum Spelling {
    public static let http = [
        "http", "HTTP", "Http", "hTtp", "htTp", "httP", "HTtp", "hTTp", "htTP", "HTTp", "hTTP", "HttP",
    ]
    public static let https = http.enumerated().map { $0.element + ($0.offset < 6 ? "s" : "S") }

    /// Spellings of 127.0.0.1.
    public static let loopback = [
        "127.0.0.1", "127.1", "127.0.1", "0x7f.1", "0X7F.0x0.0.0x1", "0x7f000001", "2130706433", "017700000001",
        "0177.0.0.01", "%31%32%37.0.0.1", "127%2E0%2e0.%31", "127.0.0.1.", "0x7f.1.", "１２７.０.０.１", "127。0。0。1",
        "%EF%BC%91%32%37.0.0.1",
    ]
    public static let localhost = [
        "localhost", "LOCALHOST", "LocalHost", "loc%61lhost", "%6C%6f%63%61%6c%68%6f%73%74", "%4COCALHOST", "lOCALHOSt",
        "ｌｏｃａｌｈｏｓｔ", "LOCAL\u{AD}HOST", "ℓocalhost", "localho\u{17F}t", "loc%C2%ADalhost",
    ]
    /// Spellings of ::1.
    public static let loopback6 = [
        "[::1]", "[0:0:0:0:0:0:0:1]", "[::0001]", "[0::1]", "[0:0::1]", "[::0:1]", "[0000:0000::0001]", "[::0.0.0.1]",
        "[0:0:0:0:0:0:0.0.0.1]", "[0:0:0::0:0:1]",
    ]
    /// Spellings of 127.0.0.1 as an IPv6 address.
    public static let mapped = [
        "[::ffff:127.0.0.1]", "[::FFFF:127.0.0.1]", "[::ffff:7f00:1]", "[::FfFf:7F00:0001]", "[0:0:0:0:0:ffff:7f00:1]",
        "[0::ffff:127.0.0.1]", "[0:0::FFFF:7f00:1]", "[0000::ffff:7f00:1]", "[::0:ffff:7f00:1]", "[::0:0:ffff:127.0.0.1]",
    ]
    /// Spellings of a name with non-ASCII letters.
    public static let international = [
        "xn--bcher-kva.example", "XN--BCHER-KVA.example", "bücher.example", "BÜCHER.EXAMPLE", "bu\u{308}cher.example",
        "BU\u{308}CHER.example", "b%C3%BCcher.example", "b%c3%9ccher.%65xample", "bu%CC%88cher.example",
        "ｂücher。example", "xn--bcher-kva%2Eexample",
    ]

    /// Returns URLs with the same target. Each scheme and each host occurs at least once, and the port in several
    /// forms.
    public static func urls(_ schemes: [String], _ hosts: [String], port: Int, _ rest: String) -> [String] {
        (0..<max(schemes.count, hosts.count)).map { index in
            let zeros = String(repeating: "0", count: index % 4)
            return "\(schemes[index % schemes.count])://\(hosts[index % hosts.count]):\(zeros)\(port)\(rest)"
        }
    }
}
