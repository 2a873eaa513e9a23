import Foundation

/// An nginx with any number of servers that differ in their certificates, each on its own loopback port. Every response
/// contains "hello" and the client's certificate.
public final class SecureNginx: Sendable {
    /// A server with its own certificate and port.
    public struct Site: Sendable {
        /// The certificate and its chain, in PEM.
        public var certificate: URL
        /// The private key, in PEM.
        public var key: URL
        /// The authority of required client certificates, in PEM; nil if no certificate is requested.
        public var clientAuthority: URL?
        /// The TLS versions in the syntax of nginx.
        public var protocols = "TLSv1.2 TLSv1.3"

        /// Creates a server with a certificate.
        public init(certificate: URL, key: URL) {
            self.certificate = certificate
            self.key = key
        }
    }

    /// The ports, in the order of the sites.
    public let ports: [UInt16]
    private let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Starts the server and returns when it responds.
    ///
    /// - Throws: `ProcessError`: `.notInstalled` with the installation command, `.didNotStart` with its messages.
    public init(_ sites: [Site]) throws {
        guard let path = Spawn.find("nginx") else { throw ProcessError.notInstalled(Nginx.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-nginx")
        let error = directory.file("error.log")
        var output = ""
        for _ in 0..<8 {
            var ports = try Self.ports(sites.count + 1)
            let plain = ports.removeLast()
            let token = UUID().uuidString
            let text = Self.configuration(directory.url, zip(sites, ports), plain, token)
            try directory.write(Data(text.utf8), to: "nginx.conf")
            try? FileManager.default.removeItem(at: error)
            let process = try ChildProcess(
                path, ["-p", directory.url.path, "-e", error.path, "-c", directory.file("nginx.conf").path],
                directory: directory.url, log: directory.file("output.log"))
            // nginx binds all ports before it responds on any of them.
            let isReady = process.becomesReady(within: 10) {
                (try? RawClient(port: plain, timeout: 1).exchange("GET", "/"))?.text == token
            }
            if isReady {
                (self.ports, self.process) = (ports, process)
                return
            }
            process.stop(grace: 0.2)
            output = process.output + ((try? String(contentsOf: error, encoding: .utf8)) ?? "")
            guard output.contains("Address already in use") else { break }
        }
        throw ProcessError.didNotStart("nginx: \(output)")
    }

    deinit { stop() }

    /// The number of requests received by each site, including those rejected because of a missing certificate.
    public var requestCounts: [Int] {
        let log = (try? String(contentsOf: directory.file("access.log"), encoding: .utf8)) ?? ""
        let lines = log.split(separator: "\n").compactMap { UInt16($0) }
        return ports.map { port in lines.count { $0 == port } }
    }

    /// Stops nginx, waits for its end, and removes its directory.
    public func stop() {
        process.stop()
        directory.remove()
    }

    /// Returns a number of different free ports.
    private static func ports(_ count: Int) throws -> [UInt16] {
        // Hold all ports until there are enough, because the system may return a free port twice.
        var listeners: [(descriptor: Int32, port: UInt16)] = []
        defer { for listener in listeners { close(listener.descriptor) } }
        while listeners.count < count { listeners.append(try LoopbackPort.listener(backlog: 0)) }
        return listeners.map(\.port)
    }

    private static func configuration(
        _ directory: URL, _ sites: Zip2Sequence<[Site], [UInt16]>, _ plain: UInt16, _ token: String
    ) -> String {
        let root = directory.path
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map { "\($0)_temp_path \(root)/tmp-\($0);" }.joined(separator: "\n    ")
        let servers = sites.map { site, port in
            let clients = site.clientAuthority.map {
                "ssl_client_certificate \($0.path); ssl_verify_client on; ssl_verify_depth 5;"
            }
            return """
                server {
                    listen 127.0.0.1:\(port) ssl http2;
                    ssl_certificate \(site.certificate.path);
                    ssl_certificate_key \(site.key.path);
                    ssl_protocols \(site.protocols);
                    ssl_ciphers DEFAULT:@SECLEVEL=0;
                    \(clients ?? "")
                    access_log \(root)/access.log port;
                    location / { return 200 "hello $ssl_client_s_dn"; }
                }
                """
        }
        return """
            daemon off;
            master_process off;
            pid \(root)/nginx.pid;
            error_log \(root)/error.log warn;
            events { worker_connections 1024; }
            http {
                access_log off;
                log_format port $server_port;
                \(temporary)
                \(servers.joined(separator: "\n"))
                server { listen 127.0.0.1:\(plain); location / { return 200 "\(token)"; } }
            }

            """
    }
}
