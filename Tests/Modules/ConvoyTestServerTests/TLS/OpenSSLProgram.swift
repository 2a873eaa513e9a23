import ConvoyTestServer
import ConvoyTestSupport
import Foundation

/// The `openssl` program, which independently reads the certificates and connects to the server.
enum OpenSSLProgram {
    /// Whether the program is installed.
    static let isInstalled = OpenSSLServer.isInstalled

    /// Runs the program. If it fails, the result contains the failure.
    static func run(_ arguments: [String], input: Data = Data()) throws -> ProcessRunner.Result {
        try ProcessRunner.run("openssl", arguments, input: input, timeout: 30)
    }

    /// Returns a certificate as text, as printed by `openssl x509 -text`.
    static func text(_ certificate: TestCertificate) throws -> String {
        let result = try run(["x509", "-noout", "-text", "-inform", "DER"], input: certificate.derData)
        return result.status == 0 ? shortened(result.text) : result.errorText
    }

    /// Returns the output with names in the format of OpenSSL 3.2 and later.
    static func shortened(_ text: String) -> String { text.replacingOccurrences(of: " = ", with: "=") }

    /// Returns the result of `openssl verify` for a certificate and its chain, with its root in the store: "OK" or the
    /// reason.
    static func verify(_ certificate: TestCertificate, _ arguments: String...) throws -> String {
        let directory = try TemporaryDirectory()
        let root = try directory.write(Data(certificate.root.pem.utf8), to: "root.pem")
        let rest = try directory.write(Data(certificate.chain.dropFirst().map(\.pem).joined().utf8), to: "rest.pem")
        let leaf = try directory.write(Data(certificate.pem.utf8), to: "leaf.pem")
        var options = ["verify", "-CAfile", root.path]
        if certificate.chain.count > 1 { options += ["-untrusted", rest.path] }
        let result = try run(options + arguments + [leaf.path])
        if result.status == 0 { return "OK" }
        let lines = (result.errorText + result.text).split(separator: "\n")
        guard let line = lines.first(where: { $0.hasPrefix("error ") }) else { return result.errorText }
        return line.split(separator: ":", maxSplits: 1).last.map { $0.trimmingCharacters(in: .whitespaces) } ?? ""
    }
}
