import COpenSSL
import ConvoySupport
import Foundation

/// An X.509 certificate (RFC 5280). The counterpart of `SecCertificate`.
///
/// Certificates are equal if their bytes are equal. A certificate is encoded as its DER in Base64.
public struct Certificate: Sendable, Hashable, CustomStringConvertible {
    let reference: X509Reference

    init(_ reference: X509Reference) { self.reference = reference }

    /// Returns the certificates in one of OpenSSL's stacks.
    static func certificates(inStack stack: OpaquePointer?) -> [Certificate] {
        (0..<convoy_x509_stack_count(stack)).compactMap { index in
            convoy_x509_stack_at(stack, index).flatMap(X509Reference.init(sharing:)).map(Certificate.init)
        }
    }

    /// Creates a certificate from DER.
    ///
    /// - Throws: `CertificateError.notACertificate` if the data is not a certificate or has trailing bytes.
    public init(derData: Data) throws(CertificateError) {
        try self.init(derData, hasTrustSettings: false)
    }

    /// Creates a certificate from DER, followed by OpenSSL's trust settings if `hasTrustSettings` is true.
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

    /// The subject's name in the format of RFC 4514: "CN=example.com,O=Example".
    public var subject: String { Self.text(X509_get_subject_name(reference.pointer)) }

    /// The issuer's name in the format of RFC 4514.
    public var issuer: String { Self.text(X509_get_issuer_name(reference.pointer)) }

    /// The start of the validity period; nil if the date cannot be read.
    public var notValidBefore: Date? { Self.date(X509_get0_notBefore(reference.pointer)) }

    /// The end of the validity period; nil if the date cannot be read.
    public var notValidAfter: Date? { Self.date(X509_get0_notAfter(reference.pointer)) }

    /// The hash of the public key, for pinning; nil if OpenSSL cannot encode the key.
    public var publicKeyPin: PublicKeyPin? {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(reference.pointer), &bytes)
        defer { convoy_free(bytes) }
        guard count > 0, let bytes else { return nil }
        return PublicKeyPin(ofKey: UnsafeRawBufferPointer(start: bytes, count: Int(count)))
    }

    /// The DNS names in the subject alternative names, unchanged.
    public var dnsNames: [String] {
        alternativeNames(GEN_DNS).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The IP addresses in the subject alternative names, each as four or sixteen bytes.
    public var addresses: [Data] { alternativeNames(GEN_IPADD) }

    /// The subject, the issuer, and the hash of the key, on one line.
    public var description: String {
        "\(subject.isEmpty ? "(no subject)" : subject), issued by \(issuer.isEmpty ? "(no name)" : issuer), "
            + "\(publicKeyPin?.description ?? "without a readable key")"
    }

    /// Returns whether the subject alternative names of the certificate include a host (RFC 9525): as a DNS name, in
    /// which a wildcard can only replace the entire first label, or as an IP address. The common name is ignored.
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
    /// Decodes the certificate from its DER.
    ///
    /// - Throws: `DecodingError.dataCorrupted` if the bytes are not a certificate.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            try self.init(derData: container.decode(Data.self))
        } catch let error as CertificateError {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(error)")
        }
    }

    /// Encodes the certificate as its DER.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(derData)
    }
}

/// Functions that read certificates from PEM or DER. Functions that read files block.
extension Certificate {
    /// Returns all certificates in PEM, in order, or the single certificate in DER. Other content, for example keys and
    /// comments, is skipped. Certificates that OpenSSL's trust settings reject for servers ("TRUSTED CERTIFICATE") are
    /// skipped as well.
    ///
    /// - Throws: `CertificateError.noCertificate` or `.damaged`.
    public static func certificates(in data: Data) throws(CertificateError) -> [Certificate] {
        try certificates(in: data, named: "")
    }

    /// Returns all certificates in a PEM file, in order, or the single certificate in a DER file.
    ///
    /// - Throws: `CertificateError`, including the file's path.
    public static func certificates(contentsOf file: URL) throws(CertificateError) -> [Certificate] {
        let data = try read(file)
        return try certificates(in: data, named: file.path)
    }

    /// Returns the certificates in all files of a folder with the extension `.cer`, `.crt`, `.der` or `.pem`, sorted by
    /// file name and without duplicates. PEM files without certificates, for example key files, are skipped. Subfolders
    /// are not searched. The counterpart of `certificatesInBundle:`.
    ///
    /// - Throws: `CertificateError`, including if the folder contains no certificates.
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
            // Drop the trust settings, because equal certificates must be interchangeable.
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
    /// The elements in order, without duplicates.
    var unique: [Element] {
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}

/// An error that prevents certificates, private keys or revocation lists from being used. File names are empty for data
/// in memory.
public enum CertificateError: Error, Hashable, Sendable, SelfDescribingError {
    /// The data is not a certificate in DER.
    case notACertificate
    /// The file or folder contains no certificates.
    case noCertificate(in: String)
    /// A certificate in a file cannot be read. Certificates are numbered from 1.
    case damaged(file: String, number: Int)
    /// The file contains no revocation list.
    case noRevocationList(in: String)
    /// A revocation list in a file cannot be read. Lists are numbered from 1.
    case damagedRevocationList(file: String, number: Int)
    /// A revocation list in a file is a delta CRL, which contains only the changes to another list. Lists are numbered
    /// from 1.
    case incompleteRevocationList(file: String, number: Int)
    /// A file or folder cannot be read. The values are its path and the reason.
    case unreadable(file: String, reason: String)
    /// The private key is missing.
    case noKey(file: String)
    /// The key or file is encrypted, and the passphrase is wrong or missing.
    case wrongPassphrase(file: String)
    /// The closure that supplies the passphrase threw an error. The value is the reason.
    case noPassphrase(reason: String)
    /// The key is damaged, or its type is not supported by OpenSSL.
    case damagedKey(file: String)
    /// The file is not in PKCS#12 format, is damaged, or uses a cipher that OpenSSL does not support, for example RC2.
    case notPKCS12(file: String)
    /// The key does not belong to the certificate.
    case keyOfAnotherCertificate

    public var description: String {
        switch self {
        case .notACertificate: "The data is not a certificate in DER format."
        case .noCertificate(in: ""): "The data contains no certificate."
        case .noCertificate(let file): "\(file) contains no certificate."
        case .damaged("", let number): "Certificate \(number) is damaged."
        case .damaged(let file, let number): "Certificate \(number) in \(file) is damaged."
        case .noRevocationList(let file): "\(file) contains no revocation list."
        case .damagedRevocationList(let file, let number): "Revocation list \(number) in \(file) is damaged."
        case .incompleteRevocationList(let file, let number):
            "Revocation list \(number) in \(file) is a delta CRL, which is not supported. Use the complete list."
        case .unreadable(let file, let reason): "\(file) cannot be read: \(reason)"
        case .noKey(let file): "The private key is missing\(Self.place(file))."
        case .wrongPassphrase(let file): "The key\(Self.place(file)) is encrypted, and the passphrase is wrong or missing."
        case .noPassphrase(let reason): "The passphrase for the key could not be obtained: \(reason)"
        case .damagedKey(let file): "The private key\(Self.place(file)) cannot be read."
        case .notPKCS12(let file):
            "The data\(Self.place(file)) is not in PKCS#12 format, is damaged, or uses a cipher that OpenSSL does not support."
        case .keyOfAnotherCertificate: "The private key does not belong to the certificate."
        }
    }

    private static func place(_ file: String) -> String { file.isEmpty ? "" : " in \(file)" }
}

/// A reference to OpenSSL's representation of a certificate. It is immutable, so any thread can read it.
final class X509Reference: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes ownership of the caller's reference.
    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    /// Adds a reference. Returns nil if OpenSSL fails.
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

/// The SHA-256 hash of a public key and its algorithm (the `SubjectPublicKeyInfo`), as defined by RFC 7469. Its text
/// form is "sha256/" followed by Base64, as in OkHttp.
///
///     openssl x509 -in server.pem -pubkey -noout | openssl pkey -pubin -outform der |
///         openssl dgst -sha256 -binary | base64
///
/// A pin is encoded as a string.
public struct PublicKeyPin: Sendable, Hashable, CustomStringConvertible {
    /// The 32 bytes of the hash.
    public let digest: Data

    /// Creates a pin from a string: "sha256/" followed by Base64. curl's form, with two slashes, is also accepted.
    ///
    /// - Throws: `SecurityTextError`.
    public init(_ text: String) throws(SecurityTextError) {
        guard text.hasPrefix("sha256/") else { throw SecurityTextError.notAPin(text) }
        var encoded = text.dropFirst(7)
        // The Base64 may itself begin with a slash, so decide by length.
        if encoded.utf8.count == Self.encodedCount + 1, encoded.hasPrefix("/") { encoded = encoded.dropFirst() }
        guard encoded.utf8.count == Self.encodedCount, let digest = Data(base64Encoded: String(encoded)),
            digest.count == 32
        else { throw SecurityTextError.notAPin(text) }
        self.digest = digest
    }

    /// The length of the Base64 of 32 bytes.
    private static let encodedCount = 44

    /// Computes the pin of a key in DER. Returns nil if OpenSSL cannot compute SHA-256.
    init?(ofKey der: UnsafeRawBufferPointer) {
        let digest = MessageDigest()
        digest.update(der)
        guard let value = digest.value() else { return nil }
        self.digest = value
    }

    public var description: String { "sha256/\(digest.base64EncodedString())" }
}

extension PublicKeyPin: TextCodable {
    package init(decoding text: String) throws { try self.init(text) }
}
