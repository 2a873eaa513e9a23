import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A request as a command for the `curl` tool, version 7.88 or later. This value type performs no I/O.
struct CurlCommand {
    var request: URLRequest
    var configuration: ConnectionConfiguration
    /// Whether the request gets the standard `User-Agent` by default.
    var addsUserAgent: Bool
    /// The total time limit in seconds; nil for none.
    var totalTimeout: TimeInterval?
    /// The credential for servers that require authentication, if any.
    var credential: URLCredential?
    var includesSecrets: Bool

    /// The parts that the command cannot express, which are listed in a comment after the command.
    var remarks: [String] = []
    var words: [String] = []
    /// The command whose output is piped to `curl` as the body, if any.
    var source: String?

    /// Returns the command, on one line unless the body has several lines.
    mutating func text() -> String {
        words = ["curl", "--globoff"]
        source = nil
        remarks = []
        addMethod()
        addFields()
        addBody()
        addConnection()
        words.append(ShellText.word(shownURL))
        let command = (source.map { "\($0) | " } ?? "") + words.joined(separator: " ")
        return remarks.isEmpty ? command : "\(command) # \(remarks.joined(separator: "; "))"
    }

    // MARK: The request

    private var method: String { request.httpMethod ?? "GET" }
    private var hasStream: Bool { request.httpBodyStream != nil }

    /// The body to send. POST, PUT and PATCH send an empty body by default.
    private var body: Data? {
        if hasStream { return nil }
        if let body = request.httpBody { return body }
        return ["POST", "PUT", "PATCH"].contains(method) ? Data() : nil
    }

    private mutating func addMethod() {
        if method == "HEAD", body == nil {
            words.append("--head")
        } else if method != (body == nil ? "GET" : "POST") {
            words += ["--request", ShellText.word(method)]
        }
    }

    private var shownURL: String {
        let address = request.url?.absoluteString ?? ""
        return includesSecrets ? address : Redaction.url(address, configuration.secrets)
    }

    // MARK: The header

    private mutating func addFields() {
        let secrets = configuration.secrets
        let fields = request.allHTTPHeaderFields ?? [:]
        func has(_ name: String) -> Bool { fields.keys.contains { HTTPSyntax.isSameField($0, name) } }
        for (name, value) in fields.sorted(by: { $0.key < $1.key }) {
            // The length is derived from the body, as in the transfer.
            if ["content-length", "transfer-encoding"].contains(name.lowercased()) { continue }
            guard HTTPSyntax.isToken(name), HTTPSyntax.isFieldValue(value) else {
                remarks.append("without an invalid header field")
                continue
            }
            let shown = includesSecrets ? value : secrets.shown(name, value)
            let isEmpty = shown.utf8.allSatisfy(ASCII.isWhitespace)
            addField(
                isEmpty ? "\(name);" : "\(name): \(shown)", isForProxy: HTTPSyntax.isSameField(name, "Proxy-Authorization"))
        }
        if !has("Accept-Encoding") {
            if has("Range") {
                addField("Accept-Encoding: identity")
            } else {
                addField("Accept-Encoding: gzip, br, zstd")
                words.append("--compressed")
            }
        }
        if !has("User-Agent") { addField(addsUserAgent ? "User-Agent: \(UserAgent.standard)" : "User-Agent:") }
        if request.cachePolicy.forbidsReuse, !has("Cache-Control"), !has("Pragma") {
            addField("Cache-Control: no-cache")
            addField("Pragma: no-cache")
        } else if request.cachePolicy.demandsValidation, !has("Cache-Control") {
            addField("Cache-Control: max-age=0")
        }
        // Without these options, curl would add its own fields to a request with a body.
        if body != nil, !has("Content-Type") { addField("Content-Type:") }
        if let body, !body.isEmpty, !has("Expect") { addField("Expect:") }
    }

    private mutating func addField(_ line: String, isForProxy: Bool = false) {
        words += [isForProxy ? "--proxy-header" : "--header", ShellText.word(line)]
    }

    // MARK: The body

    /// The maximum length of a body that is passed as an argument, in bytes. It is below the limit of Linux, 128 KiB.
    private static let longestArgument = 100_000

    private mutating func addBody() {
        if hasStream { remarks.append("without the body, which is a stream") }
        guard let body else { return }
        let type = request.value(forHTTPHeaderField: "Content-Type")
        let shown = includesSecrets ? body : BodyRedaction.shown(body, type: type, configuration.secrets)
        if shown.count <= Self.longestArgument, ShellText.isText(shown) {
            // `--data` would interpret a body with a leading `@` as a file name.
            words += ["--data-raw", ShellText.quoted(String(decoding: shown, as: UTF8.self))]
        } else {
            source = ShellText.printf(shown)
            words += ["--data-binary", "@-"]
        }
    }

    // MARK: The connection

    private mutating func addConnection() {
        addRoute()
        switch configuration.maximumHTTPVersion {
        case .http1_0: words.append("--http1.0")
        case .http1_1: words.append("--http1.1")
        case .http2: break
        }
        if configuration.keepsDotSegments { words.append("--path-as-is") }
        let idle = request.timeoutInterval
        if idle > 0, idle < 1e9, idle != Self.defaultTimeout {
            let seconds = String(max(1, Int(idle.rounded(.up))))
            words += ["--connect-timeout", seconds, "--speed-limit", "1", "--speed-time", seconds]
        }
        if let totalTimeout, totalTimeout > 0, totalTimeout < 1e9 {
            words += ["--max-time", String(max(1, Int(totalTimeout.rounded(.up))))]
        }
        if request.url.flatMap({ Target($0) })?.isSecure == true { addTLS() }
    }

    /// Foundation's default timeout, which is omitted from the command.
    private static let defaultTimeout: TimeInterval = 60

    private mutating func addTLS() {
        let host = request.url.flatMap { Target($0) }?.host
        let policy = host.map(configuration.securityPolicy.policy(forHost:)) ?? configuration.securityPolicy
        addTrust(policy)
        switch policy.certificateAuthorities {
        case .system: break
        case .file(let file): words += ["--cacert", ShellText.word(file.path)]
        case .directory(let directory): words += ["--capath", ShellText.word(directory.path)]
        case .certificates, .systemAnd: remarks.append("without the operation's own certificate authorities")
        }
        if policy.requiresStapledStatus { words.append("--cert-status") }
        if let list = policy.revocationLists.first {
            words += ["--crlfile", ShellText.word(list.path)]
            if policy.revocationLists.count > 1 { remarks.append("with only the first of its revocation lists") }
        }
        if configuration.minimumTLSVersion == .tls13 { words.append("--tlsv1.3") }
        if configuration.maximumTLSVersion == .tls12 { words += ["--tls-max", "1.2"] }
        let suites = configuration.cipherSuites
        let (new, old) = (suites.filter { $0.hasPrefix("TLS_") }, suites.filter { !$0.hasPrefix("TLS_") })
        if !old.isEmpty { words += ["--ciphers", ShellText.word(old.joined(separator: ":"))] }
        if !new.isEmpty { words += ["--tls13-ciphers", ShellText.word(new.joined(separator: ":"))] }
        guard let identity = configuration.clientIdentity else { return }
        guard let files = identity.files else { return remarks.append("without the client certificate") }
        if files.isPKCS12 { words += ["--cert-type", "P12"] }
        words += ["--cert", ShellText.word(files.certificate.path)]
        if let key = files.key { words += ["--key", ShellText.word(key.path)] }
    }

    /// Adds the options for trust. Where curl cannot express the policy, the command trusts less.
    private mutating func addTrust(_ policy: SecurityPolicy) {
        guard policy.isPinning else {
            switch (policy.allowInvalidCertificates, policy.validatesDomainName) {
            case (true, false): words.append("--insecure")
            case (false, false): remarks.append("validates the server's name, unlike the operation")
            // Such a policy trusts no server, or has no exceptions to express.
            case (_, true): break
            }
            return
        }
        if let end = policy.pinsExpire, Date() >= end { return }
        let isOfCertificates = policy.effectivePinningMode == .certificate
        // curl compares only the server's own key, and writes a pin with two slashes.
        let pins = isOfCertificates ? Set(policy.pinnedCertificates.compactMap(\.publicKeyPin)) : policy.pinnedPublicKeys
        // Without pins, no server is trusted: no key has this digest.
        let digests = pins.isEmpty ? [Data(count: 32)] : pins.map(\.digest)
        let texts = digests.map { "sha256//\($0.base64EncodedString())" }.sorted()
        words += ["--pinnedpubkey", ShellText.word(texts.joined(separator: ";"))]
        if isOfCertificates { remarks.append("pins the keys of the operation's pinned certificates") }
        if policy.validatesCertificateChain { remarks.append("pins only the server's key, not the complete chain") }
        if policy.allowInvalidCertificates || !policy.validatesDomainName {
            remarks.append("validates the server's certificate, unlike the operation")
        }
    }
}

/// The route to the server.
extension CurlCommand {
    mutating func addRoute() {
        switch configuration.proxy {
        case .environment: break
        case .none: words += ["--noproxy", ShellText.word("*")]
        case .proxy(let proxy, let exceptions):
            words += ["--proxy", ShellText.word(proxy.description)]
            // Without this option, curl reads the exceptions from the environment.
            words += ["--noproxy", ShellText.word(exceptions.joined(separator: ","))]
            if let credential = proxy.credential {
                if proxy.kind.isHTTP { words.append("--proxy-anyauth") }
                words += ["--proxy-user", login(credential.user, credential.password)]
            }
        }
        if let address = request.url.flatMap({ Target($0) }).flatMap(configuration.fixedAddress) {
            words += ["--connect-to", ShellText.word(address)]
        }
        if let socket = configuration.unixSocket {
            let isAbstract = socket.hasPrefix("@")
            words.append(isAbstract ? "--abstract-unix-socket" : "--unix-socket")
            words.append(ShellText.word(isAbstract ? String(socket.dropFirst()) : socket))
        }
        switch configuration.connectionSource {
        case .interface(let name): words += ["--interface", ShellText.word("if!\(name)")]
        case .address(let address): words += ["--interface", ShellText.word("host!\(address)")]
        case nil: break
        }
        if let credential {
            words += ["--anyauth", "--user", login(credential.user ?? "", credential.password ?? "")]
        }
    }

    private func login(_ user: String, _ password: String) -> String {
        ShellText.word(includesSecrets ? "\(user):\(password)" : "\(Redaction.mask):\(Redaction.mask)")
    }
}

extension URLConnectionOperation {
    /// Returns the request as a `curl` command for a POSIX shell: the method, the header, the body, the time limits,
    /// the route, and the TLS settings that `curl` supports. A `credential` is sent to a server that requires it. The
    /// cookies of a `cookieStore` and the token of an `authenticator` are the current ones.
    ///
    /// Secrets are replaced by `***` unless included: credentials; the values of `Authorization`, `Cookie`,
    /// `Proxy-Authorization`, of the fields listed in `sensitiveHeaders` and of fields whose names suggest a secret;
    /// the user name and password in the URL; the values of `sensitiveQueryItems` in the URL, and in a body that is a
    /// form or JSON. Other bodies are shown unchanged. A body that is a stream is omitted; a comment mentions this, and
    /// any setting for which `curl` has no option. The command trusts no server that the operation does not trust: it
    /// has no `--insecure` if keys or certificates are pinned. Redirects are not followed.
    ///
    /// - Parameter includingSecrets: Whether to include the secrets, so that the command sends the operation's exact
    ///   request.
    public final func curlCommand(includingSecrets: Bool = false) -> String {
        let preview = requestPreview
        var request = preview.request
        if let field = preview.cookies?.keeper.field(for: request, preview.configuration) {
            request.setValue(field, forHTTPHeaderField: "Cookie")
        }
        var command = CurlCommand(
            request: request, configuration: preview.configuration, addsUserAgent: preview.addsUserAgent,
            totalTimeout: totalTimeout, credential: preview.credential, includesSecrets: includingSecrets)
        return command.text()
    }
}

extension CookieStorage {
    /// Returns the `Cookie` field that the store adds to a request; nil if it adds none, for example because the
    /// request has its own.
    fileprivate func field(for request: URLRequest, _ configuration: ConnectionConfiguration) -> String? {
        guard request.httpShouldHandleCookies, request.value(forHTTPHeaderField: "Cookie") == nil,
            let address = request.url.flatMap({ HTTPAddress($0.absoluteString) }),
            let target = CookieTarget(address, keepingDotSegments: configuration.keepsDotSegments)
        else { return nil }
        let isSafe = RequestRules.isSafe(request.httpMethod ?? "GET")
        // Bytes that are not valid UTF-8 cannot be shown in a command.
        return field(for: target, site: request.mainDocumentURL, isSafeMethod: isSafe)
            .flatMap { String(validating: $0, as: UTF8.self) }
    }
}

/// Functions that quote strings for a POSIX shell (IEEE Std 1003.1, "Shell Command Language", section 2.2), preserving
/// each byte.
package enum ShellText {
    /// Returns a string as one word of a command.
    ///
    /// Control characters, which a terminal would interpret when the command is printed, are produced by `printf`
    /// inside a command substitution. The substitution removes trailing line feeds, so the string must not end with a
    /// line feed.
    package static func word(_ text: String) -> String {
        if !text.isEmpty, text.utf8.allSatisfy(isPlain) { return text }
        if text.unicodeScalars.contains(where: isControl) { return "\"$(\(printf(Data(text.utf8))))\"" }
        return "'\(text.replacing("'", with: #"'\''"#))'"
    }

    /// Returns a command that writes the bytes.
    static func printf(_ bytes: Data) -> String {
        var format = ""
        format.reserveCapacity(bytes.count)
        for (index, byte) in bytes.enumerated() {
            // A format that begins with `-` would be parsed as an option.
            let isLiteral = isPlain(byte) && byte != UInt8(ascii: "%") && !(index == 0 && byte == UInt8(ascii: "-"))
            if isLiteral || byte == UInt8(ascii: " ") {
                format.unicodeScalars.append(Unicode.Scalar(byte))
            } else if byte == UInt8(ascii: "%") {
                format += "%%"
            } else {
                let digits = String(byte, radix: 8)
                format += "\\" + String(repeating: "0", count: 3 - digits.count) + digits
            }
        }
        return "printf '\(format)'"
    }

    /// Returns whether a string can be a word, plain or quoted, and can be printed safely.
    static func isText(_ bytes: Data) -> Bool {
        guard let text = String(validating: bytes, as: UTF8.self) else { return false }
        return !text.unicodeScalars.contains { isControl($0) && $0 != "\n" && $0 != "\t" }
    }

    /// Returns a string in quotes, with its line feeds and tabs unchanged.
    static func quoted(_ text: String) -> String { "'\(text.replacing("'", with: #"'\''"#))'" }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "_-./:=,@+%".utf8.contains(byte)
        }
    }

    /// Returns whether a character is a control character or changes the direction of text.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }
}
