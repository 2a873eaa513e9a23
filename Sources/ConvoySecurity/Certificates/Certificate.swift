import COpenSSL
import ConvoySupport
import Foundation

/// An X.509 certificate (RFC 5280), as a value. The counterpart of `SecCertificate`.
///
/// Two are equal if their bytes are. It is coded as its DER in base64.
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
        try self.init(derData, hasNotes: false)
    }

    /// A certificate in DER, followed by OpenSSL's notes about what it is trusted for, if there are any.
    init(_ derData: Data, hasNotes: Bool) throws(CertificateError) {
        let pointer = derData.withUnsafeBytes { bytes -> OpaquePointer? in
            var position = bytes.bindMemory(to: UInt8.self).baseAddress
            let end = position.map { $0 + bytes.count }
            let parsed = hasNotes ? d2i_X509_AUX(nil, &position, bytes.count) : d2i_X509(nil, &position, bytes.count)
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

    /// Whether OpenSSL's notes say that it is not to be trusted for servers.
    var isRejected: Bool { X509_check_trust(reference.pointer, X509_TRUST_SSL_SERVER, 0) == X509_TRUST_REJECTED }

    /// The certificate in DER, as servers send it.
    public var derData: Data { reference.derData }

    /// The certificate in PEM (RFC 7468).
    public var pem: String {
        "-----BEGIN CERTIFICATE-----\n\(derData.base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed]))\n"
            + "-----END CERTIFICATE-----\n"
    }

    // MARK: What it says

    /// Whom it is about, as RFC 4514 writes names: "CN=example.com,O=Example".
    public var subject: String { Self.text(X509_get_subject_name(reference.pointer)) }

    /// Who issued it.
    public var issuer: String { Self.text(X509_get_issuer_name(reference.pointer)) }

    /// From when it is valid; nil for a date that cannot be read.
    public var notValidBefore: Date? { Self.date(X509_get0_notBefore(reference.pointer)) }

    /// Until when it is valid; nil for a date that cannot be read.
    public var notValidAfter: Date? { Self.date(X509_get0_notAfter(reference.pointer)) }

    /// The hash of its public key, as it is pinned; nil if OpenSSL cannot encode the key.
    public var publicKeyPin: PublicKeyPin? {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(reference.pointer), &bytes)
        defer { convoy_free(bytes) }
        guard count > 0, let bytes else { return nil }
        return PublicKeyPin(ofKey: UnsafeRawBufferPointer(start: bytes, count: Int(count)))
    }

    /// The DNS names of its subject alternative names, as they are there.
    public var dnsNames: [String] {
        alternativeNames(GEN_DNS).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The IP addresses of its subject alternative names: four bytes or sixteen.
    public var addresses: [Data] { alternativeNames(GEN_IPADD) }

    /// In a line: the subject, the issuer, and the hash of the key.
    public var description: String {
        "\(subject.isEmpty ? "(no subject)" : subject), issued by \(issuer.isEmpty ? "(no name)" : issuer), "
            + "\(publicKeyPin?.description ?? "without a readable key")"
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
    /// - Throws: `DecodingError.dataCorrupted` for bytes that are no certificate.
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
