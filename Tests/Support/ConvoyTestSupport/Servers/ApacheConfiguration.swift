import Foundation

/// The configuration of an ``ApacheServer``.
struct ApacheConfiguration {
    /// The directory of the modules in Debian.
    static let modules = "/usr/lib/apache2/modules"
    /// The modules that an ``ApacheServer`` always needs.
    static let required = [
        "mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "auth_digest", "dav", "dav_fs",
        "ssl", "http2",
    ]

    static func hasModule(_ name: String) -> Bool {
        FileManager.default.fileExists(atPath: "\(modules)/mod_\(name).so")
    }

    let directory: URL
    let port, securePort: UInt16
    let certificates: TestCertificates
    let realm: String
    /// The lifetime of a nonce, in seconds.
    let nonceLifetime: Int
    /// The keys for `/negotiate/`; nil for none.
    let keytab: URL?

    var text: String {
        let needed = Self.required + (keytab == nil ? [] : ["auth_gssapi"])
        let modules = needed.map { "LoadModule \($0)_module \(Self.modules)/mod_\($0).so" }
        return (modules + server + [location("basic", basic), location("digest", digest)] + negotiate).joined(
            separator: "\n")
            + "\n"
    }

    private func path(_ name: String) -> String { "\"\(directory.appendingPathComponent(name).path)\"" }

    private var server: [String] {
        [
            "ServerRoot \(path(""))", "PidFile \(path("pid"))", "DefaultRuntimeDir \(path(""))",
            "Mutex fcntl:\(directory.path)", "ServerName localhost", "Listen 127.0.0.1:\(port)",
            "Listen 127.0.0.1:\(securePort)", "ErrorLog \(path("error.log"))",
            // Debian's package creates this user. Apache would not serve as root.
            geteuid() == 0 ? "User www-data\nGroup www-data" : "",
            // Use a single process, which counts the nonces of all requests.
            "ServerLimit 1", "StartServers 1", "ThreadsPerChild 32", "MaxRequestWorkers 32", "MinSpareThreads 1",
            "MaxSpareThreads 32", "KeepAliveTimeout 60", "MaxKeepAliveRequests 0", "DocumentRoot \(path("files"))",
            "DavLockDB \(path("locks/db"))",
            "<Directory \(path("files"))>\nRequire all granted\nDav On\n</Directory>",
            """
            <VirtualHost 127.0.0.1:\(securePort)>
            SSLEngine on
            SSLCertificateFile "\(certificates.serverCertificate.path)"
            SSLCertificateKeyFile "\(certificates.serverKey.path)"
            Protocols h2 http/1.1
            </VirtualHost>
            """,
        ]
    }

    private func location(_ name: String, _ lines: [String]) -> String {
        let quoted = realm.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\\\"")
        let first = ["<Location /\(name)>", "AuthName \"\(quoted)\""]
        return (first + lines + ["Require valid-user", "</Location>"]).joined(separator: "\n")
    }

    private var basic: [String] { ["AuthType Basic", "AuthUserFile \(path("basic.users"))"] }

    private var digest: [String] {
        ["AuthType Digest", "AuthUserFile \(path("digest.users"))", "AuthDigestNonceLifetime \(nonceLifetime)"]
    }

    private var negotiate: [String] {
        guard let keytab else { return [] }
        return [
            location(
                "negotiate",
                [
                    "AuthType GSSAPI", "GssapiCredStore keytab:\(keytab.path)", "GssapiAllowedMech krb5",
                    "GssapiSSLonly Off",
                ])
        ]
    }
}
