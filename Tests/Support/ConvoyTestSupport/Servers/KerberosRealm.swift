import Foundation

/// A realm of MIT Kerberos with a key distribution center on a free loopback port, a user, and a service on localhost.
///
/// All files are in a separate directory, so that the machine's own Kerberos is neither used nor changed. Programs join
/// the realm with the variables in ``environment``.
public final class KerberosRealm: Sendable {
    /// The name of the realm.
    public static let name = "CONVOY.TEST"
    /// The user and the password.
    public static let user = "ada", password = "secret"

    /// The TCP port of the key distribution center.
    public let port: UInt16
    /// The process of the key distribution center.
    public let process: ChildProcess
    /// The variables for clients and servers, which name the configuration and the client's tickets.
    public let environment: [String: String]
    private let directory: TemporaryDirectory

    /// The keys of the HTTP service on localhost, for a server.
    public var keytab: URL { directory.file("keytab") }

    /// Whether all Kerberos programs are installed.
    public static var isInstalled: Bool {
        ["krb5kdc", "kdb5_util", "kadmin.local", "kinit", "kdestroy"].allSatisfy { Spawn.find($0) != nil }
    }
    /// The installation hint shown for a skipped test.
    public static let installHint =
        "Kerberos. Debian, Ubuntu: apt-get install krb5-kdc krb5-admin-server krb5-user"

    /// Creates the realm, and returns when its center accepts connections. Takes some tenths of a second.
    ///
    /// - Throws: `ProcessError`: `.notInstalled` with the installation command, `.didNotStart` with its messages.
    public init() throws {
        guard Self.isInstalled else { throw ProcessError.notInstalled(Self.installHint) }
        directory = try TemporaryDirectory(prefix: "convoy-kerberos")
        try directory.open()
        environment = [
            "KRB5_CONFIG": directory.file("krb5.conf").path, "KRB5CCNAME": "FILE:\(directory.file("tickets").path)",
        ]
        var isMade = false
        var output = ""
        for attempt in 0..<8 {
            let port = try LoopbackPort.free()
            try Self.configure(directory, port: port)
            let center = environment.merging(["KRB5_KDC_PROFILE": directory.file("kdc.conf").path]) { $1 }
            if !isMade {
                try Self.makeDatabase(directory, environment: center)
                isMade = true
            }
            let log = directory.file("kdc.log")
            try? FileManager.default.removeItem(at: log)
            let process = try ChildProcess(
                "krb5kdc", ["-n"], environment: center, directory: directory.url,
                log: directory.file("output-\(attempt).log"))
            let isReady = process.becomesReady(within: 10) {
                (try? String(contentsOf: log, encoding: .utf8))?.contains("commencing operation") == true
            }
            if isReady {
                (self.port, self.process) = (port, process)
                return
            }
            process.stop(grace: 0.2)
            output = process.output + ((try? String(contentsOf: log, encoding: .utf8)) ?? "")
            guard output.contains("in use") else { break }
        }
        throw ProcessError.didNotStart("krb5kdc: \(output)")
    }

    deinit { stop() }

    /// Gets a ticket for the user.
    ///
    /// - Throws: `ProcessError.didNotStart` with the messages of `kinit`.
    public func logIn() throws {
        try Self.run("kinit", [Self.user], input: "\(Self.password)\n", environment: environment)
    }

    /// Destroys all tickets.
    public func logOut() throws {
        try Self.run("kdestroy", [], environment: environment)
    }

    /// Pauses the center, which then accepts connections but does not respond.
    public func pause() { kill(process.id, SIGSTOP) }

    /// Resumes the center after ``pause()``.
    public func resume() { kill(process.id, SIGCONT) }

    /// Stops the center and keeps its directory. Its port refuses connections.
    public func halt() {
        resume()
        process.stop()
    }

    /// Stops this center, waits for its end, and removes its directory.
    public func stop() {
        halt()
        directory.remove()
    }

    private static func configure(_ directory: TemporaryDirectory, port: UInt16) throws {
        // Use only TCP, so that a hanging center is detected immediately, without the repetitions of UDP. Do not look
        // up names, because 127.0.0.1 may resolve to any name.
        let client = """
            [libdefaults]
             default_realm = \(name)
             dns_lookup_realm = false
             dns_lookup_kdc = false
             dns_canonicalize_hostname = false
             rdns = false
             udp_preference_limit = 1
            [realms]
             \(name) = {
              kdc = 127.0.0.1:\(port)
             }
            [domain_realm]
             localhost = \(name)

            """
        let center = """
            [kdcdefaults]
             kdc_listen = ""
             kdc_tcp_listen = 127.0.0.1:\(port)
            [realms]
             \(name) = {
              database_name = \(directory.file("principal").path)
              key_stash_file = \(directory.file("stash").path)
              acl_file = \(directory.file("acl").path)
              max_life = 1h
             }
            [logging]
             kdc = FILE:\(directory.file("kdc.log").path)

            """
        try directory.write(Data(client.utf8), to: "krb5.conf")
        try directory.write(Data(center.utf8), to: "kdc.conf")
    }

    private static func makeDatabase(_ directory: TemporaryDirectory, environment: [String: String]) throws {
        try run("kdb5_util", ["create", "-s", "-P", "master", "-r", name], environment: environment)
        let keytab = directory.file("keytab").path
        for query in [
            "addprinc -pw \(password) \(user)", "addprinc -randkey HTTP/localhost", "ktadd -k \(keytab) HTTP/localhost",
        ] {
            try run("kadmin.local", ["-q", query], environment: environment)
        }
        // Let a server that root has started read the file as another user.
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: keytab)
    }

    private static func run(
        _ program: String, _ arguments: [String], input: String = "", environment: [String: String]
    ) throws {
        let result = try ProcessRunner.run(program, arguments, input: Data(input.utf8), environment: environment)
        guard result.status == 0 else {
            throw ProcessError.didNotStart("\(program): \(result.text)\(result.errorText)")
        }
    }
}
