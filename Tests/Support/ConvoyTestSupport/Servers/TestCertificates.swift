import Foundation

/// A small certificate authority that openssl creates for one run, with a certificate for the server on this machine
/// and one for a client. All certificates are valid for two days, and only for these tests.
public struct TestCertificates: Sendable {
    /// The certificate of the authority, in PEM.
    public let certificateAuthority: URL
    /// The server's certificate for "localhost" and 127.0.0.1, in PEM.
    public let serverCertificate: URL
    /// The server's private key, in PEM.
    public let serverKey: URL
    /// A certificate for a client named "Convoy Test Client", in PEM.
    public let clientCertificate: URL
    /// The client's private key, in PEM.
    public let clientKey: URL

    /// Creates all certificates in this directory. Takes some tens of milliseconds.
    ///
    /// - Throws: `ProcessError.notInstalled` without openssl, `.didNotStart` with its message if it fails.
    public init(in directory: URL) throws {
        let file = { (name: String) in directory.appendingPathComponent(name) }
        certificateAuthority = file("ca.pem")
        serverCertificate = file("server.pem")
        serverKey = file("server.key")
        clientCertificate = file("client.pem")
        clientKey = file("client.key")
        // Use a separate configuration, because the system's adds extensions that differ between distributions.
        try Data(Self.configuration.utf8).write(to: file("openssl.cnf"))
        try Self.request("Convoy Test CA", "authority", file("ca.key"), certificateAuthority, nil, directory)
        let authority = (certificateAuthority, file("ca.key"))
        try Self.request("localhost", "server", serverKey, serverCertificate, authority, directory)
        try Self.request("Convoy Test Client", "client", clientKey, clientCertificate, authority, directory)
    }

    private static func request(
        _ name: String, _ extensions: String, _ key: URL, _ certificate: URL, _ authority: (URL, URL)?, _ directory: URL
    ) throws {
        var arguments = [
            "req", "-x509", "-config", directory.appendingPathComponent("openssl.cnf").path, "-extensions", extensions,
            "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=\(name)",
            "-keyout", key.path, "-out", certificate.path,
        ]
        if let authority { arguments += ["-CA", authority.0.path, "-CAkey", authority.1.path] }
        let result: ProcessRunner.Result
        do {
            result = try ProcessRunner.run("openssl", arguments, directory: directory, timeout: 30)
        } catch ProcessError.notInstalled {
            throw ProcessError.notInstalled("openssl. Debian, Ubuntu: apt-get install openssl")
        }
        guard result.status == 0 else { throw ProcessError.didNotStart("openssl: \(result.errorText)") }
    }

    private static let configuration = """
        [req]
        distinguished_name = name
        [name]
        [authority]
        basicConstraints = critical, CA:TRUE
        keyUsage = critical, keyCertSign, cRLSign
        subjectKeyIdentifier = hash
        [server]
        basicConstraints = critical, CA:FALSE
        keyUsage = critical, digitalSignature
        extendedKeyUsage = serverAuth
        subjectAltName = DNS:localhost, IP:127.0.0.1
        [client]
        basicConstraints = critical, CA:FALSE
        keyUsage = critical, digitalSignature
        extendedKeyUsage = clientAuth

        """
}
