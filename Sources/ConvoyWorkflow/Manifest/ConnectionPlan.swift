import ConvoyObjectStorage
import ConvoyOperations
import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The connection settings of a manifest, named like the options of `convoy get`.
struct ConnectionPlan: Sendable {
    static let keys = [
        "proxy", "noproxy", "resolve", "connect-to", "unix-socket", "interface", "ipv4", "ipv6", "http1.0", "http1.1",
        "path-as-is", "max-redirs", "cacert", "crl-file", "pin", "cert", "key", "tls-min", "insecure", "connect-timeout",
        "max-time", "limit-rate", "limit-rate-each", "min-rate", "user", "netrc-file", "aws-sigv4", "location-trusted",
    ]

    private var changes: [@Sendable (inout ConnectionConfiguration) -> Void] = []
    private var maximumTime: Double?
    /// The user in the form `NAME:PASSWORD`.
    private var user: Template?
    /// The scope of the AWS signature that `user` makes.
    private var signature: Template?
    /// Whether redirects to other servers keep the header fields and the body.
    private var trustsRedirects = false
    /// The rate limit, shared by the items of a request or, as a default, by all requests.
    private var rate: RateLimit?
    private var rateOfEach: Int64?
    private var logins: CredentialStore?
    /// Whether the paths of URLs are sent as written.
    private(set) var keepsDotSegments = false

    var templates: [Template] { [user, signature].compactMap(\.self) }

    /// Whether requests are signed.
    var isSigned: Bool { signature != nil }

    /// Sends requests without a signature and its keys.
    mutating func removeSignature() { if isSigned { (user, signature) = (nil, nil) } }

    /// Returns the password of `user`, if it is known in a scope.
    func secrets(in scope: some Scope) -> [String] {
        guard let user, let text = try? user.text(in: scope) else { return [] }
        return [String(text.drop { $0 != ":" }.dropFirst())]
    }

    /// Configures an operation.
    ///
    /// - Parameters:
    ///   - file: The file that is the body, or nil.
    ///   - secrets: Receives the encoded login.
    func apply(
        to operation: HTTPRequestOperation, sending file: URL?, in scope: some Scope, _ secrets: SecretMask
    ) throws(EvaluationError) {
        if !changes.isEmpty {
            operation.updateSettings { settings in
                for change in changes { change(&settings.connectionConfiguration) }
            }
        }
        if let rateOfEach {
            let own = RateLimit(bytesPerSecond: rateOfEach)
            operation.updateSettings { $0.connectionConfiguration.receiveRateLimits.append(own) }
        }
        if let maximumTime { operation.totalTimeout = maximumTime }
        if let logins { operation.credentialStore = logins }
        if let user {
            let text = try user.text(in: scope)
            let parts = text.split(separator: ":" as Character, maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw EvaluationError(message: "user must be NAME:PASSWORD") }
            if let signature {
                guard let names = SignatureScope(try signature.text(in: scope)) else {
                    throw EvaluationError(message: SignatureScope.rule)
                }
                let keys = ObjectStorageCredentials(accessKeyID: String(parts[0]), secretAccessKey: String(parts[1]))
                operation.setDelegate(RequestSignature(names, keys, sending: file))
            }
            secrets.add(exactly: Data(text.utf8).base64EncodedString())
            operation.credential =
                isSigned
                ? nil : URLCredential(user: String(parts[0]), password: String(parts[1]), persistence: .forSession)
        }
        if trustsRedirects {
            let names = (operation.request.allHTTPHeaderFields ?? [:]).keys
            operation.updateSettings { settings in
                settings.connectionConfiguration.keepsHeadersAcrossOrigins.formUnion(names)
                settings.connectionConfiguration.keepsHeadersAcrossOrigins.insert("Authorization")
                settings.connectionConfiguration.sendsBodiesAcrossOrigins = true
            }
        }
        if let rate { operation.receiveRateLimit = rate }
    }

    /// Adds the settings in the fields. The settings of a request replace the defaults.
    mutating func read(_ fields: [String: ManifestValue]) throws(ManifestError) {
        try readRoute(fields)
        try readTrust(fields)
        maximumTime =
            try fields["max-time"].map { value throws(ManifestError) in try value.seconds("max-time") } ?? maximumTime
        if let value = fields["connect-timeout"] {
            let seconds = try value.seconds("connect-timeout")
            changes.append { $0.timeoutIntervalForConnecting = seconds }
        }
        if let value = fields["limit-rate"] { rate = RateLimit(bytesPerSecond: try bytes(value, "limit-rate")) }
        if let value = fields["limit-rate-each"] { rateOfEach = try bytes(value, "limit-rate-each") }
        if let value = fields["min-rate"] {
            let bytes = try value.bytes("min-rate")
            changes.append { $0.stallLimit = StallLimit(bytesPerSecond: bytes, duration: 30) }
        }
        if let value = fields["netrc-file"] {
            let store = CredentialStore(), file = try value.file("netrc-file")
            do throws(NetrcError) {
                store.netrc = try Netrc(contentsOf: file)
            } catch {
                throw value.problem("netrc-file: \(error.description)")
            }
            logins = store
        }
        if let value = fields["user"] {
            let template = try Template(value, "user")
            let mayHaveColon = template.pieces.contains { part in
                if case .literal(let text) = part { text.contains(":") } else { true }
            }
            guard mayHaveColon else { throw value.problem("user must be NAME:PASSWORD") }
            user = template
        }
        if let value = fields["location-trusted"] { trustsRedirects = try value.bool("location-trusted") }
        if let value = fields["aws-sigv4"] {
            let template = try Template(value, "aws-sigv4")
            if let text = template.literal, SignatureScope(text) == nil { throw value.problem(SignatureScope.rule) }
            guard user != nil else { throw value.problem("aws-sigv4 requires user: KEY:SECRET", atKey: true) }
            signature = template
        }
    }

    private mutating func readRoute(_ fields: [String: ManifestValue]) throws(ManifestError) {
        if let value = fields["proxy"] {
            let text = try value.string("proxy")
            var exceptions: [String] = []
            if let names = fields["noproxy"] {
                exceptions = try names.string("noproxy").split(separator: "," as Character).map {
                    $0.trimmingCharacters(in: .whitespaces)
                }
            }
            let selection: ProxySelection
            do throws(URLError) {
                selection = text.isEmpty ? .none : .proxy(try Proxy(text), except: exceptions)
            } catch {
                throw value.problem("proxy: invalid proxy URL")
            }
            changes.append { $0.proxy = selection }
        } else if let value = fields["noproxy"] {
            throw value.problem("noproxy requires proxy")
        }
        if let value = fields["resolve"] {
            var addresses: [String: String] = [:]
            for member in try value.members("resolve") {
                let address = try member.value.string("an address")
                guard IPAddress(address) != nil else {
                    throw member.value.problem("resolve: \(quoted(address)) is not an IP address")
                }
                addresses[member.key] = address.contains(":") ? "[\(address)]" : address
            }
            let overrides = addresses
            changes.append { $0.addressOverrides.merge(overrides) { $1 } }
        }
        if let value = fields["connect-to"] {
            var targets: [String: String] = [:]
            for member in try value.members("connect-to") {
                targets[member.key] = try member.value.string("a place to connect to")
            }
            let overrides = targets
            changes.append { $0.addressOverrides.merge(overrides) { $1 } }
        }
        if let value = fields["interface"] {
            let text = try value.string("interface")
            guard !text.isEmpty else { throw value.problem("interface must be a name or an address") }
            let source: ConnectionSource = IPAddress(text).map { .address($0) } ?? .interface(text)
            changes.append { $0.connectionSource = source }
        }
        for (key, network) in [("ipv4", "::/0"), ("ipv6", "0.0.0.0/0")] {
            guard let value = fields[key], try value.bool(key), let denied = try? IPNetwork(network) else { continue }
            changes.append { $0.addressGuard = AddressGuard(deny: [denied]) }
        }
        if let value = fields["ipv4"], fields["ipv6"] != nil {
            throw value.problem("ipv4 and ipv6 cannot be combined", atKey: true)
        }
        if let value = fields["unix-socket"] {
            let path = try value.path("unix-socket")
            changes.append { $0.unixSocket = path }
        }
        for (key, version) in [("http1.0", HTTPVersion.http1_0), ("http1.1", .http1_1)] {
            guard let value = fields[key] else { continue }
            if try value.bool(key) {
                changes.append { $0.maximumHTTPVersion = version }
            } else {
                // Undo the default of the manifest.
                changes.append { if $0.maximumHTTPVersion == version { $0.maximumHTTPVersion = .http2 } }
            }
        }
        if let value = fields["http1.0"], let other = fields["http1.1"], try value.bool("http1.0"), try other.bool("http1.1")
        {
            throw value.problem("http1.0 and http1.1 cannot be combined", atKey: true)
        }
        if let value = fields["path-as-is"] {
            let keeps = try value.bool("path-as-is")
            keepsDotSegments = keeps
            changes.append { $0.keepsDotSegments = keeps }
        }
        if let value = fields["max-redirs"] {
            let count = try value.integer("max-redirs", in: 0...1000)
            changes.append { ($0.maximumRedirects, $0.returnsRedirects) = (count, count == 0) }
        }
    }

    private mutating func readTrust(_ fields: [String: ManifestValue]) throws(ManifestError) {
        if let value = fields["cacert"] {
            let file = try value.file("cacert")
            let authorities: CertificateAuthorities
            do throws(CertificateError) {
                authorities = .certificates(try Certificate.certificates(contentsOf: file))
            } catch {
                throw value.problem("cacert: \(error)")
            }
            changes.append { $0.securityPolicy.certificateAuthorities = authorities }
        }
        if let value = fields["crl-file"] {
            let file = try value.file("crl-file")
            do throws(CertificateError) {
                try RevocationLists.check([file])
            } catch {
                throw value.problem("crl-file: \(error.description)")
            }
            changes.append { $0.securityPolicy.revocationLists = [file] }
        }
        if let value = fields["pin"] {
            let pin: PublicKeyPin
            do throws(SecurityTextError) {
                pin = try PublicKeyPin(try pinText(value))
            } catch {
                throw value.problem("pin: \(error)")
            }
            changes.append {
                $0.securityPolicy.pinningMode = .publicKey
                $0.securityPolicy.publicKeyPins.insert(pin)
            }
        }
        if let value = fields["insecure"], try value.bool("insecure") {
            changes.append {
                $0.securityPolicy.allowInvalidCertificates = true
                $0.securityPolicy.validatesDomainName = false
            }
        }
        if let value = fields["tls-min"] {
            switch value.json.text {
            case "1.2": break
            case "1.3": changes.append { $0.minimumTLSVersion = .tls13 }
            default: throw value.problem("tls-min must be 1.2 or 1.3")
            }
        }
        if let value = fields["cert"] {
            let file = try value.file("cert")
            let key = try fields["key"].map { path throws(ManifestError) in try path.file("key") }
            let identity: ClientIdentity
            if ["p12", "pfx"].contains(file.pathExtension.lowercased()) {
                if let key = fields["key"] {
                    throw key.problem("key cannot be used with a PKCS#12 file, which contains its own key", atKey: true)
                }
                identity = ClientIdentity(pkcs12: file)
            } else {
                identity = ClientIdentity(certificate: file, key: key)
            }
            do throws(CertificateError) {
                _ = try identity.certificates()
            } catch {
                throw value.problem("cert: \(error)")
            }
            changes.append { $0.clientIdentity = identity }
        } else if let value = fields["key"] {
            throw value.problem("key requires cert")
        }
    }

    private func bytes(_ value: ManifestValue, _ key: String) throws(ManifestError) -> Int64 {
        let bytes = try value.bytes(key)
        guard bytes > 0 else { throw value.problem("\(key) must be greater than 0") }
        return bytes
    }

    private func pinText(_ value: ManifestValue) throws(SecurityTextError) -> String {
        if case .string(let text) = value.json { text } else { "" }
    }
}
