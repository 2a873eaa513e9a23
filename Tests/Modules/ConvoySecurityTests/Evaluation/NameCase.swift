import ConvoyTestServer

/// A certificate's names, a host, and whether they match (RFC 9525, section 6).
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
        NameCase(["other.example.localhost"], "api.example.localhost", false),
        NameCase(["api.example.localhost"], "API.Example.Localhost", true),
        NameCase(["API.EXAMPLE.LOCALHOST"], "api.example.localhost.", true),
        NameCase(["example.localhost"], "api.example.localhost", false),
        NameCase(["api.example.localhost"], "example.localhost", false),
        NameCase(["*.example.localhost"], "api.example.localhost", true),
        NameCase(["*.example.localhost"], "a.api.example.localhost", false),
        NameCase(["*.example.localhost"], "example.localhost", false),
        NameCase(["*.example.localhost"], "xn--bcher-kva.example.localhost", true),
        NameCase(["a*.example.localhost"], "api.example.localhost", false),
        NameCase(["*i.example.localhost"], "api.example.localhost", false),
        NameCase(["*a.example.localhost"], "a.example.localhost", false),
        NameCase(["a*i.example.localhost"], "api.example.localhost", false),
        NameCase(["api.*.localhost"], "api.example.localhost", false),
        NameCase(["*.*.localhost"], "api.example.localhost", false),
        NameCase(["*"], "api.example.localhost", false), NameCase(["*"], "localhost", false),
        NameCase(["*.localhost"], "example.localhost", false),
        NameCase(["**.example.localhost"], "api.example.localhost", false),
        NameCase(["xn--*.example.localhost"], "xn--bcher-kva.example.localhost", false),
        NameCase(["*.0.0.1"], "127.0.0.1", false),
        NameCase(["127.0.0.1"], "127.0.0.1", true), NameCase(["127.0.0.1"], "127.0.0.2", false),
        NameCase(["::1"], "[::1]", true), NameCase(["::1"], "0:0:0:0:0:0:0:1", true), NameCase(["::1"], "::2", false),
        NameCase([], "127.0.0.1", false, dnsNames: ["127.0.0.1"]), NameCase([], "::1", false, dnsNames: ["::1"]),
        NameCase(["127.0.0.1"], "localhost", false),
        NameCase(["api.example.localhost"], "api.example.localhost", false, onlyCommonName: true),
        NameCase(["127.0.0.1"], "127.0.0.1", false, onlyCommonName: true),
        NameCase([], "api.example.localhost", false), NameCase([], "api.example.localhost", false, dnsNames: [""]),
        NameCase(
            [], "api.example.localhost", false,
            dnsNames: ["", ".", " api.example.localhost", "api.example.localhost "]),
        NameCase(
            (1..<100).map { "h\($0).example.localhost" } + ["api.example.localhost"], "api.example.localhost", true),
        NameCase((1...100).map { "h\($0).example.localhost" }, "api.example.localhost", false),
    ]
}
