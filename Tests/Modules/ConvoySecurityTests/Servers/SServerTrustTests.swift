import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Handshakes with `openssl s_server`, which reports every TLS record.
@Suite(.enabled(if: OpenSSLServer.isInstalled, "requires \(OpenSSLServer.installHint)"))
struct SServerTrustTests {
    /// Returns whether the server has received application data, according to its report of the records.
    private func sawData(_ output: String) -> Bool {
        let lines = output.split(separator: "\n")
        return zip(lines, lines.dropFirst()).contains { head, bytes in
            // In TLS 1.3 most records have the outer type of application data, so check the inner type.
            let content = bytes.split(separator: " ")
            guard head.hasPrefix("<<<"), content.first == "17" else { return false }
            return head.contains("InnerContent")
                || head.contains("TLS 1.2, RecordHeader") && !output.contains("InnerContent")
        }
    }

    /// Returns whether the client has aborted the handshake.
    private func sawAlert(_ output: String) -> Bool {
        output.split(separator: "\n").contains { $0.hasPrefix("<<<") && $0.contains("Alert") && $0.contains("fatal") }
    }

    /// Returns the output of the server, starting at an offset in its log.
    private func output(of server: OpenSSLServer, from offset: UInt64) throws -> String {
        let file = try FileHandle(forReadingFrom: server.process.log)
        defer { try? file.close() }
        try file.seek(toOffset: offset)
        return String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
    }

    private func outputSize(of server: OpenSSLServer) throws -> UInt64 {
        let file = try FileHandle(forReadingFrom: server.process.log)
        defer { try? file.close() }
        return try file.seekToEnd()
    }

    private static let names: Set = [
        "good", "expired", "self-signed", "RSA-1024", "SHA-1", "another's valid chain, pinned ones appended",
    ]
    private static let cells = [
        PolicyCell(mode: .publicKey, pins: .parts([.leaf])), PolicyCell(allowsInvalid: true, validatesName: false),
    ]

    private func isServed(_ specimen: Specimen, _ version: OpenSSLServer.Version) -> Bool {
        // With TLS 1.2, the server does not use a key that may not sign.
        if version == .tls12, specimen.name == "key for lists only" { return false }
        guard PolicyCell.isWholeAsked else { return Self.names.contains(specimen.name) }
        return specimen.forged == nil
            && (specimen.host == "127.0.0.1" || specimen.host == SpecimenAuthorities.host)
    }

    @Test(arguments: [OpenSSLServer.Version.tls12, .tls13])
    func `a rejected server receives an alert and no application data`(version: OpenSSLServer.Version) async throws {
        let made = try SpecimenAuthorities()
        let directory = try TemporaryDirectory()
        let another = try Certificate(TestCertificate.selfSigned(.server("another.test")))
        for specimen in try Specimens(made: made).all() where isServed(specimen, version) {
            let files = try specimen.identity.write(to: directory.url, name: "server")
            let rest = try directory.write(Data(specimen.rest.map(\.pem).joined().utf8), to: "rest.pem")
            let server = try OpenSSLServer(
                version: version,
                arguments: [
                    "-cert", files.certificate.path, "-key", files.key.path, "-msg", "-cipher", "DEFAULT:@SECLEVEL=0",
                ] + (specimen.rest.isEmpty ? [] : ["-cert_chain", rest.path]))
            let url = try #require(URL(string: "https://\(specimen.host):\(server.port)/"))
            let cells = PolicyCell.isWholeAsked ? PolicyCell.all : Self.cells
            for cell in cells where cell.isFor(specimen) {
                let policy = try cell.policy(for: specimen, another: another, try made.trusted)
                let reason = Expectation(specimen: specimen, cell: cell).reason
                let start = try outputSize(of: server)
                let outcome = await Outcome(of: url) { $0.securityPolicy = policy }
                #expect(outcome.isRight(reason), "\(specimen.name), \(cell): \(outcome) instead of \(reason as Any)")
                if reason == nil {
                    try await waitUntil("application data") { try sawData(output(of: server, from: start)) }
                } else {
                    try await waitUntil("the alert") { try sawAlert(output(of: server, from: start)) }
                    #expect(try !sawData(output(of: server, from: start)), "\(specimen.name), \(cell)")
                }
            }
            server.stop()
        }
    }
}
