import Convoy
import ConvoySupport
import Foundation

/// The TLS options: the trusted servers and the client certificate.
struct TrustOptions {
    private var policy = SecurityPolicy.default
    private var identity: ClientIdentity?
    private var minimumVersion = TLSVersion.tls12
    private let hsts: HSTSStore?
    private let isInsecure: Bool

    /// Throws a usage error for options that cannot be combined, and for unusable files.
    init(_ options: Options) throws(ToolError) {
        isInsecure = options.has("insecure")
        hsts = try options.value("hsts").map { path throws(ToolError) in
            guard !path.isEmpty, path != "-" else { throw options.usage("--hsts needs a file") }
            do throws(HSTSStoreError) {
                return try HSTSStore(file: URL(fileURLWithPath: path))
            } catch {
                throw .usage("--hsts: \(Printable.line(error.description))")
            }
        }
        if let path = options.value("cacert") {
            guard !isInsecure else { throw options.usage("--cacert and --insecure cannot be combined") }
            policy.certificateAuthorities = try Self.authorities(path)
        }
        let lists = options.all("crl-file")
        if !lists.isEmpty {
            policy.revocationLists = try Self.revocationLists(lists)
        }
        let pins = options.all("pin")
        if !pins.isEmpty {
            policy.pinningMode = .publicKey
            for text in pins {
                do throws(SecurityTextError) {
                    policy.publicKeyPins.insert(try PublicKeyPin(text))
                } catch {
                    throw .usage("--pin: \(Printable.line(error.description))")
                }
            }
        }
        if isInsecure {
            policy.allowInvalidCertificates = true
            policy.validatesDomainName = false
        }
        switch options.value("tls-min") {
        case nil, "1.2": break
        case "1.3": minimumVersion = .tls13
        case .some: throw options.usage("--tls-min takes 1.2 or 1.3")
        }
        identity = try Self.identity(options)
    }

    func apply(to configuration: inout ConnectionConfiguration) {
        configuration.securityPolicy = policy
        configuration.clientIdentity = identity
        configuration.minimumTLSVersion = minimumVersion
        configuration.hsts = hsts
    }

    /// Writes the HSTS file.
    ///
    /// - Returns: The status of the run, which fails if the file cannot be written.
    func finish(_ status: ExitStatus, _ display: Display) -> ExitStatus {
        guard let hsts else { return status }
        do throws(HSTSStoreError) {
            try hsts.save()
            return status
        } catch {
            display.complain("--hsts: \(Printable.line(error.description))")
            return status == .success ? .failed(.disk) : status
        }
    }

    /// A warning to print, or nil.
    var warning: String? {
        guard isInsecure else { return nil }
        return policy.isPinning
            ? "warning: -k: only the pinned keys of server certificates are checked"
            : "warning: -k: server certificates are not checked; traffic can be intercepted"
    }

    // MARK: Files

    private static func authorities(_ path: String) throws(ToolError) -> CertificateAuthorities {
        let url = UserPath.url(path)
        var isDirectory: ObjCBool = false
        let exists = FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
        do throws(CertificateError) {
            // Read the certificates now, to report errors before anything is sent.
            if exists, isDirectory.boolValue {
                return .certificates(try Certificate.certificates(inDirectory: url))
            }
            return .certificates(try Certificate.certificates(contentsOf: url))
        } catch {
            throw .usage("--cacert: \(Printable.line(error.description))")
        }
    }

    private static func revocationLists(_ paths: [String]) throws(ToolError) -> [URL] {
        let files = paths.map { UserPath.url($0) }
        do throws(CertificateError) {
            // Check the files now. Connections read them again later, because the files may change.
            try RevocationLists.check(files)
        } catch {
            throw .usage("--crl-file: \(Printable.line(error.description))")
        }
        return files
    }

    private static func identity(_ options: Options) throws(ToolError) -> ClientIdentity? {
        guard let file = options.value("cert") else {
            guard options.value("key") == nil else { throw options.usage("--key requires --cert") }
            return nil
        }
        let certificate = UserPath.url(file)
        let prompt = PassphrasePrompt(file: options.value("key") ?? file)
        let identity: ClientIdentity
        if ["p12", "pfx"].contains(certificate.pathExtension.lowercased()) {
            guard options.value("key") == nil else {
                throw options.usage("--key cannot be used with a PKCS#12 file, which contains its own key")
            }
            identity = ClientIdentity(pkcs12: certificate, passphrase: prompt.ask)
        } else {
            let key = options.value("key").map { UserPath.url($0) }
            identity = ClientIdentity(certificate: certificate, key: key, passphrase: prompt.ask)
        }
        do throws(CertificateError) {
            _ = try identity.certificates()
        } catch {
            throw .usage("--cert: \(Printable.line(error.description))")
        }
        return identity
    }
}
