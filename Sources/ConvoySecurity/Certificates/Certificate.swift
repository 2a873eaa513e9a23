import COpenSSL
import ConvoySupport
import Foundation

/// An X.509 certificate (RFC 5280). The counterpart of `SecCertificate`.
///
/// Certificates are equal if their bytes are. It is coded as its DER in base64.
public struct Certificate: Sendable, Hashable, CustomStringConvertible {
    let reference: X509Reference

    init(_ reference: X509Reference) { self.reference = reference }

    /// The certificates of one of OpenSSL's stacks.
    static func certificates(inStack stack: OpaquePointer?) -> [Certificate] {
        (0..<convoy_x509_stack_count(stack)).compactMap { index in
            convoy_x509_stack_at(stack, index).flatMap(X509Reference.init(sharing:)).map(Certificate.init)
        }
    }

    /// A certificate in DER.
    ///
    /// - Throws: `CertificateError.notACertificate`, also if more bytes follow.
    public init(derData: Data) throws(CertificateError) {
        try self.init(derData, hasTrustSettings: false)
    }

    /// A certificate in DER, followed by OpenSSL's trust settings if `hasTrustSettings` is true.
    init(_ derData: Data, hasTrustSettings: Bool) throws(CertificateError) {
        let pointer = derData.withUnsafeBytes { bytes -> OpaquePointer? in
            var position = bytes.bindMemory(to: UInt8.self).baseAddress
            let end = position.map { $0 + bytes.count }
            let parsed = hasTrustSettings ? d2i_X509_AUX(nil, &position, bytes.count) : d2i_X509(nil, &position, bytes.count)
            guard let certificate = parsed else { return nil }
            guard position == end else {
                X509_free(certificate)
                return nil
            }
            return certificate
        }
        ERR_clear_error()
        guard let pointer else { throw .notACertificate }
        reference = X509Reference(owning: pointer)
    }

    /// Whether OpenSSL's trust settings reject the certificate for servers.
    var isRejected: Bool { X509_check_trust(reference.pointer, X509_TRUST_SSL_SERVER, 0) == X509_TRUST_REJECTED }

    /// The certificate in DER, as servers send it.
    public var derData: Data { reference.derData }

    /// The certificate in PEM (RFC 7468).
    public var pem: String {
        "-----BEGIN CERTIFICATE-----\n\(derData.base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed]))\n"
            + "-----END CERTIFICATE-----\n"
    }

    // MARK: Contents

    /// The subject's name in the form of RFC 4514: "CN=example.com,O=Example".
    public var subject: String { Self.text(X509_get_subject_name(reference.pointer)) }

    /// The issuer's name in the same form.
    public var issuer: String { Self.text(X509_get_issuer_name(reference.pointer)) }

    /// The start of its validity; nil for a date that cannot be read.
    public var notValidBefore: Date? { Self.date(X509_get0_notBefore(reference.pointer)) }

    /// The end of its validity; nil for a date that cannot be read.
    public var notValidAfter: Date? { Self.date(X509_get0_notAfter(reference.pointer)) }

    /// The hash of its public key, as it is pinned; nil if OpenSSL cannot encode the key.
    public var publicKeyPin: PublicKeyPin? {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(reference.pointer), &bytes)
        defer { convoy_free(bytes) }
        guard count > 0, let bytes else { return nil }
        return PublicKeyPin(ofKey: UnsafeRawBufferPointer(start: bytes, count: Int(count)))
    }

    /// The DNS names among its subject alternative names, unchanged.
    public var dnsNames: [String] {
        alternativeNames(GEN_DNS).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The IP addresses among its subject alternative names, of four or sixteen bytes each.
    public var addresses: [Data] { alternativeNames(GEN_IPADD) }

    /// The subject, the issuer, and the hash of the key, in one line.
    public var description: String {
        "\(subject.isEmpty ? "(no subject)" : subject), issued by \(issuer.isEmpty ? "(no name)" : issuer), "
            + "\(publicKeyPin?.description ?? "without a readable key")"
    }

    /// Whether the certificate names a host among its subject alternative names (RFC 9525): a DNS name, with a wildcard
    /// for at most the whole first label, or an IP address. The common name does not count.
    public func matches(host: String) -> Bool {
        HostName(host)?.isNamed(by: self) ?? false
    }

    private func alternativeNames(_ type: Int32) -> [Data] {
        guard let names = convoy_x509_alternative_names(reference.pointer) else { return [] }
        defer { GENERAL_NAMES_free(names) }
        return (0..<convoy_general_names_count(names)).compactMap { index in
            var count: Int32 = 0
            guard let bytes = convoy_general_name(names, index, type, &count) else { return nil }
            return Data(bytes: bytes, count: Int(count))
        }
    }

    private static func text(_ name: OpaquePointer?) -> String {
        guard let name, let output = convoy_bio_writing() else { return "" }
        defer { BIO_free(output) }
        guard X509_NAME_print_ex(output, name, 0, convoy_name_format()) >= 0 else { return "" }
        var bytes: UnsafePointer<UInt8>?
        let count = convoy_bio_bytes(output, &bytes)
        return String(decoding: UnsafeBufferPointer(start: bytes, count: bytes == nil ? 0 : count), as: UTF8.self)
    }

    static func date(_ time: UnsafePointer<ASN1_TIME>?) -> Date? {
        var fields = tm()
        guard let time, ASN1_TIME_to_tm(time, &fields) == 1 else { return nil }
        return Date(timeIntervalSince1970: TimeInterval(timegm(&fields)))
    }

    // MARK: Equality

    public static func == (left: Certificate, right: Certificate) -> Bool {
        left.reference === right.reference || X509_cmp(left.reference.pointer, right.reference.pointer) == 0
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(derData) }
}

extension Certificate: Codable {
    /// Decodes a certificate from its DER.
    ///
    /// - Throws: `DecodingError.dataCorrupted` for bytes that are not a certificate.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            try self.init(derData: container.decode(Data.self))
        } catch let error as CertificateError {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(error)")
        }
    }

    /// Encodes the DER.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(derData)
    }
}

/// Reading certificates, in PEM or DER. Blocks while files are read.
extension Certificate {
    /// All certificates of a text in PEM, in their order, or the one of bytes in DER. Other content, such as keys and
    /// comments, is skipped, and so are certificates that OpenSSL's trust settings reject for servers ("TRUSTED
    /// CERTIFICATE").
    ///
    /// - Throws: `CertificateError.noCertificate`, `.damaged`.
    public static func certificates(in data: Data) throws(CertificateError) -> [Certificate] {
        try certificates(in: data, named: "")
    }

    /// All certificates of a file in PEM, in their order, or the one of a file in DER.
    ///
    /// - Throws: `CertificateError`, with the file's path.
    public static func certificates(contentsOf file: URL) throws(CertificateError) -> [Certificate] {
        let data = try read(file)
        return try certificates(in: data, named: file.path)
    }

    /// The certificates of all files of a folder that are named `.cer`, `.crt`, `.der` or `.pem`, in the order of the
    /// names, each once. Files in PEM that hold only other things, such as keys, are skipped; subfolders are not read. The
    /// counterpart of `certificatesInBundle:`.
    ///
    /// - Throws: `CertificateError`, also if there is none at all.
    public static func certificates(inDirectory folder: URL) throws(CertificateError) -> [Certificate] {
        let names: [String]
        do throws(FileContents.Failure) {
            names = try FileReading.names(in: folder)
        } catch {
            throw .unreadable(file: folder.path, reason: error.reason)
        }
        var found: [Certificate] = []
        for name in names where endings.contains((name as NSString).pathExtension.lowercased()) {
            let file = folder.appendingPathComponent(name)
            let data = try read(file)
            let blocks = PEM.blocks(in: data)
            guard blocks.isEmpty || blocks.contains(where: \.isCertificate) else { continue }
            found += try certificates(in: data, named: file.path)
        }
        guard !found.isEmpty else { throw .noCertificate(in: folder.path) }
        return found.unique
    }

    private static func read(_ file: URL) throws(CertificateError) -> Data {
        do throws(FileContents.Failure) {
            return try FileReading.data(of: file)
        } catch {
            throw .unreadable(file: file.path, reason: error.reason)
        }
    }

    private static let endings: Set<String> = ["cer", "crt", "der", "pem"]

    static func certificates(in data: Data, named file: String) throws(CertificateError) -> [Certificate] {
        let blocks = PEM.blocks(in: data)
        guard !blocks.isEmpty else {
            guard data.first == PEM.sequenceTag, let certificate = try? Certificate(derData: data) else {
                throw .noCertificate(in: file)
            }
            return [certificate]
        }
        var found: [Certificate] = []
        var count = 0
        for block in blocks where block.isCertificate {
            count += 1
            guard let der = block.derData, let certificate = try? Certificate(der, hasTrustSettings: block.hasTrustSettings)
            else {
                throw .damaged(file: file, number: count)
            }
            // The trust settings are dropped, as equal certificates must be interchangeable.
            if !block.hasTrustSettings {
                found.append(certificate)
            } else if !certificate.isRejected {
                found.append((try? Certificate(derData: certificate.derData)) ?? certificate)
            }
        }
        guard !found.isEmpty else { throw .noCertificate(in: file) }
        return found
    }
}

extension Array where Element: Hashable {
    /// The elements in their order, each once.
    var unique: [Element] {
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}

/// Why certificates, their private keys, or lists of revoked ones cannot be used. The names of files are empty for bytes in
/// memory.
public enum CertificateError: Error, Hashable, Sendable, SelfDescribingError {
    /// The bytes are not a certificate in DER.
    case notACertificate
    /// There is no certificate in the file or folder.
    case noCertificate(in: String)
    /// A certificate in a file cannot be read; its number counts from 1.
    case damaged(file: String, number: Int)
    /// A file has no revocation list.
    case noRevocationList(in: String)
    /// A revocation list in a file cannot be read; its number counts from 1.
    case damagedRevocationList(file: String, number: Int)
    /// A list in a file is a delta CRL, which has only the changes to another one; its number counts from 1.
    case incompleteRevocationList(file: String, number: Int)
    /// A file or folder cannot be read, and the reason.
    case unreadable(file: String, reason: String)
    /// There is no private key.
    case noKey(file: String)
    /// The key or file is encrypted, and the passphrase is wrong or missing.
    case wrongPassphrase(file: String)
    /// The closure that supplies the passphrase threw this error.
    case noPassphrase(reason: String)
    /// The key is damaged, or of a type that OpenSSL does not support.
    case damagedKey(file: String)
    /// The file is not PKCS#12, is damaged, or uses a cipher that OpenSSL does not have, such as RC2.
    case notPKCS12(file: String)
    /// The key is not that of the certificate.
    case keyOfAnotherCertificate

    public var description: String {
        switch self {
        case .notACertificate: "The bytes are not a certificate in DER."
        case .noCertificate(in: ""): "There is no certificate."
        case .noCertificate(let file): "There is no certificate in \(file)."
        case .damaged("", let number): "Certificate \(number) is damaged."
        case .damaged(let file, let number): "Certificate \(number) of \(file) is damaged."
        case .noRevocationList(let file): "There is no revocation list in \(file)."
        case .damagedRevocationList(let file, let number): "Revocation list \(number) of \(file) is damaged."
        case .incompleteRevocationList(let file, let number):
            "Revocation list \(number) of \(file) has only the changes to another one, which is not supported."
        case .unreadable(let file, let reason): "\(file) cannot be read: \(reason)"
        case .noKey(let file): "There is no private key\(Self.place(file))."
        case .wrongPassphrase(let file): "The key\(Self.place(file)) is encrypted, and the passphrase is wrong or missing."
        case .noPassphrase(let reason): "There is no passphrase for the key: \(reason)"
        case .damagedKey(let file): "The private key\(Self.place(file)) cannot be read."
        case .notPKCS12(let file):
            "The bytes\(Self.place(file)) are not PKCS#12, are damaged, or use a cipher that OpenSSL does not have."
        case .keyOfAnotherCertificate: "The private key is not that of the certificate."
        }
    }

    private static func place(_ file: String) -> String { file.isEmpty ? "" : " in \(file)" }
}

/// A reference to OpenSSL's form of a certificate. It never changes, so that any thread can read it.
final class X509Reference: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes the caller's reference.
    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    /// Adds a reference; nil if OpenSSL cannot.
    init?(sharing pointer: OpaquePointer) {
        guard X509_up_ref(pointer) == 1 else { return nil }
        self.pointer = pointer
    }

    deinit { X509_free(pointer) }

    /// The certificate in DER.
    var derData: Data {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509(pointer, &bytes)
        defer { convoy_free(bytes) }
        guard count > 0, let bytes else { return Data() }
        return Data(bytes: bytes, count: Int(count))
    }
}

/// The SHA-256 of a public key and its algorithm (the `SubjectPublicKeyInfo`), as RFC 7469 computes it. It is written
/// as "sha256/" and base64, as by OkHttp.
///
///     openssl x509 -in server.pem -pubkey -noout | openssl pkey -pubin -outform der |
///         openssl dgst -sha256 -binary | base64
///
/// It is coded as its text.
public struct PublicKeyPin: Sendable, Hashable, CustomStringConvertible {
    /// The 32 bytes of the hash.
    public let digest: Data

    /// A pin from its text: "sha256/" and base64. curl's form, with two slashes, is accepted as well.
    ///
    /// - Throws: `SecurityTextError`.
    public init(_ text: String) throws(SecurityTextError) {
        guard text.hasPrefix("sha256/") else { throw SecurityTextError.notAPin(text) }
        var encoded = text.dropFirst(7)
        // The base64 may itself begin with a slash, so that the length decides.
        if encoded.utf8.count == Self.encodedCount + 1, encoded.hasPrefix("/") { encoded = encoded.dropFirst() }
        guard encoded.utf8.count == Self.encodedCount, let digest = Data(base64Encoded: String(encoded)),
            digest.count == 32
        else { throw SecurityTextError.notAPin(text) }
        self.digest = digest
    }

    /// How many characters the base64 of 32 bytes has.
    private static let encodedCount = 44

    /// The pin of a key in DER; nil if OpenSSL cannot compute SHA-256.
    init?(ofKey der: UnsafeRawBufferPointer) {
        let digest = MessageDigest()
        digest.update(der)
        guard let value = digest.value() else { return nil }
        self.digest = value
    }

    public var description: String { "sha256/\(digest.base64EncodedString())" }
}

extension PublicKeyPin: Codable {
    /// Decodes a pin from its text.
    ///
    /// - Throws: `DecodingError.dataCorrupted` for a text that is not a pin.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            try self.init(container.decode(String.self))
        } catch let error as SecurityTextError {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(error)")
        }
    }

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
