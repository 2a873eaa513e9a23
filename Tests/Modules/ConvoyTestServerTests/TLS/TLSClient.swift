import ConvoyTestServer
import ConvoyTestSupport
import Foundation

/// A client of a server that uses curl and `openssl s_client`, and trusts one root.
struct TLSClient {
    /// Whether both programs are installed.
    static let isInstalled =
        OpenSSLProgram.isInstalled && FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")

    let directory: TemporaryDirectory
    let root: URL

    init(trusting root: TestCertificate) throws {
        directory = try TemporaryDirectory()
        self.root = try directory.write(Data(root.pem.utf8), to: "root.pem")
    }

    /// Runs curl, which writes only errors to standard error.
    func curl(_ arguments: String...) throws -> ProcessRunner.Result { try curl(arguments) }

    /// Runs curl, which writes only errors to standard error.
    func curl(_ arguments: [String]) throws -> ProcessRunner.Result {
        try ProcessRunner.run(
            "/usr/bin/curl", ["-sS", "--max-time", "30", "--cacert", root.path] + arguments, timeout: 60)
    }

    /// Sends a request with `openssl s_client` and returns its output: the handshake and the response.
    func session(_ server: TestServer, _ path: String = "/", _ arguments: String...) throws -> String {
        let request = "GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        let result = try OpenSSLProgram.run(
            ["s_client", "-connect", "127.0.0.1:\(server.port)", "-CAfile", root.path, "-ign_eof"] + arguments,
            input: Data(request.utf8))
        return OpenSSLProgram.shortened(result.text + result.errorText)
    }
}
