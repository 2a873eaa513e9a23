import ConvoyTestServer

/// A certificate's names, a host, and whether they fit (RFC 9525, section 6).
struct NameCase: Sendable, CustomStringConvertible {
    var names: [String]
    var host: String
    var fits: Bool
    var onlyCommonName = false
    var dnsNames: [String]?

    var description: String { "\(onlyCommonName ? "CN " : "")\(dnsNames ?? Array(names.prefix(3))) for \(host)" }

    var profile: TestCertificate.Profile {
        var profile = TestCertificate.Profile.server(names)
        profile.omitsSubjectAlternativeNames = onlyCommonName
        if let dnsNames { profile.dnsNames = dnsNames }
        return profile
    }

    init(_ names: [String], _ host: String, _ fits: Bool, onlyCommonName: Bool = false, dnsNames: [String]? = nil) {
        (self.names, self.host, self.fits) = (names, host, fits)
        (self.onlyCommonName, self.dnsNames) = (onlyCommonName, dnsNames)
    }

    static let all: [NameCase] = [
        NameCase(["other.example.com"], "api.example.com", false),
        NameCase(["api.example.com"], "API.Example.COM", true),
        NameCase(["API.EXAMPLE.COM"], "api.example.com.", true),
        NameCase(["example.com"], "api.example.com", false),
        NameCase(["api.example.com"], "example.com", false),
        NameCase(["*.example.com"], "api.example.com", true),
        NameCase(["*.example.com"], "a.api.example.com", false),
        NameCase(["*.example.com"], "example.com", false),
        NameCase(["*.example.com"], "xn--bcher-kva.example.com", true),
        NameCase(["a*.example.com"], "api.example.com", false),
        NameCase(["*i.example.com"], "api.example.com", false),
        NameCase(["*a.example.com"], "a.example.com", false),
        NameCase(["a*i.example.com"], "api.example.com", false),
        NameCase(["api.*.com"], "api.example.com", false),
        NameCase(["*.*.com"], "api.example.com", false),
        NameCase(["*"], "api.example.com", false), NameCase(["*"], "localhost", false),
        NameCase(["*.com"], "example.com", false), NameCase(["**.example.com"], "api.example.com", false),
        NameCase(["xn--*.example.com"], "xn--bcher-kva.example.com", false),
        NameCase(["*.0.0.1"], "127.0.0.1", false),
        NameCase(["127.0.0.1"], "127.0.0.1", true), NameCase(["127.0.0.1"], "127.0.0.2", false),
        NameCase(["::1"], "[::1]", true), NameCase(["::1"], "0:0:0:0:0:0:0:1", true), NameCase(["::1"], "::2", false),
        NameCase([], "127.0.0.1", false, dnsNames: ["127.0.0.1"]), NameCase([], "::1", false, dnsNames: ["::1"]),
        NameCase(["127.0.0.1"], "localhost", false),
        NameCase(["api.example.com"], "api.example.com", false, onlyCommonName: true),
        NameCase(["127.0.0.1"], "127.0.0.1", false, onlyCommonName: true),
        NameCase([], "api.example.com", false), NameCase([], "api.example.com", false, dnsNames: [""]),
        NameCase([], "api.example.com", false, dnsNames: ["", ".", " api.example.com", "api.example.com "]),
        NameCase((1..<100).map { "h\($0).example.com" } + ["api.example.com"], "api.example.com", true),
        NameCase((1...100).map { "h\($0).example.com" }, "api.example.com", false),
    ]
}
