import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The certificates and hosts of OkHttp's hostname verification tests.
@Suite(
    .enabled(
        if: ConformanceSuite.directory("hostname") != nil, Comment(rawValue: ConformanceSuite.hint("hostname"))))
struct HostConformanceTests {
    private struct Case: Decodable {
        struct Host: Decodable {
            let host: String
            let match: Bool
        }
        let name: String
        let certificate: String?
        let commonName: String?
        let subjectAltNames: [String]?
        let hosts: [Host]
    }

    @Test func `a host matches exactly the certificates that name it`() throws {
        let directory = try #require(ConformanceSuite.directory("hostname"))
        let data = try Data(contentsOf: directory.appendingPathComponent("okhttp.json"))
        var count = 0
        for given in try JSONDecoder().decode([Case].self, from: data) {
            let certificate: Certificate
            if let pem = given.certificate {
                certificate = try #require(try Certificate.certificates(in: Data(pem.utf8)).first)
            } else {
                var profile = TestCertificate.Profile.server(given.subjectAltNames ?? [])
                profile.commonName = given.commonName ?? ""
                certificate = try Certificate(TestCertificate.selfSigned(profile))
            }
            // These tests do not cover IPv4 addresses written as IPv6.
            for host in given.hosts where !host.host.lowercased().hasPrefix("::ffff:") && !host.host.contains(":FFFF:") {
                #expect(certificate.matches(host: host.host) == host.match, "\(given.name): \(host.host)")
                count += 1
            }
        }
        #expect(count >= 80)
    }
}
