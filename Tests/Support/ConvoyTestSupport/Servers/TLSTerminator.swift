import Foundation

/// A TLS server in front of another port of this machine, which decrypts requests, forwards them, and encrypts the
/// responses. It turns a proxy into an HTTPS proxy. Uses Python's `ssl`.
public final class TLSTerminator: Sendable {
    /// Whether the program is installed.
    public static var isInstalled: Bool { Spawn.find("python3") != nil }
    /// The installation hint shown for a skipped test.
    public static let installHint = "python3. Debian, Ubuntu: apt-get install python3"

    /// The port on 127.0.0.1.
    public let port: UInt16
    private let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Starts the program, and returns when it accepts connections.
    ///
    /// - Parameters:
    ///   - target: The port on 127.0.0.1 of the plain-text server.
    ///   - certificate: The chain, in PEM.
    ///   - key: The private key, in PEM.
    ///   - clientAuthority: The authority of requested client certificates, in PEM; nil to request none. The program
    ///     prints a line for each client with a certificate.
    /// - Throws: `ProcessError`.
    public init(
        before target: UInt16, certificate: String, key: String, askingForClientsOf clientAuthority: String? = nil
    ) throws {
        directory = try TemporaryDirectory(prefix: "convoy-tls")
        try directory.write(Data((certificate + key).utf8), to: "identity.pem")
        if let clientAuthority { try directory.write(Data(clientAuthority.utf8), to: "clients.pem") }
        let port = try LoopbackPort.free()
        process = try ChildProcess(
            "python3",
            [
                "-c", Self.program, "\(port)", "\(target)", directory.file("identity.pem").path,
                clientAuthority == nil ? "" : directory.file("clients.pem").path,
            ],
            directory: directory.url, log: directory.file("output.log"))
        self.port = port
        let process = process
        let isReady = process.becomesReady(within: 20) { process.output.contains("READY") }
        guard isReady else {
            throw ProcessError.didNotStart("python3: \(process.output)")
        }
    }

    /// The number of completed handshakes.
    public var handshakeCount: Int { process.output.split(separator: "\n").filter { $0.hasPrefix("HANDSHAKE") }.count }

    /// The number of clients that have presented a certificate.
    public var clientCertificateCount: Int {
        process.output.split(separator: "\n").filter { $0 == "HANDSHAKE with certificate" }.count
    }

    /// Stops the program.
    public func stop() {
        process.stop(grace: 0.2)
        directory.remove()
    }

    private static let program = """
        import socket, ssl, sys, threading

        port, target, identity, clients = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity)
        if clients:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(clients)

        def pump(source, sink):
            try:
                while data := source.recv(65536):
                    sink.sendall(data)
            except OSError:
                pass
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

        def serve(plain):
            try:
                client = context.wrap_socket(plain, server_side=True)
            except OSError as error:
                print("FAILED", error, flush=True)
                return
            print("HANDSHAKE with certificate" if client.getpeercert() else "HANDSHAKE", flush=True)
            server = socket.create_connection(("127.0.0.1", target))
            threading.Thread(target=pump, args=(server, client), daemon=True).start()
            pump(client, server)

        listener = socket.create_server(("127.0.0.1", port), backlog=128)
        print("READY", flush=True)
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
        """
}
