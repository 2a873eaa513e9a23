import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Certificates in files: PEM with additional content, DER, and folders.
@Suite struct CertificateFileTests {
    let first: TestCertificate
    let second: TestCertificate
    let directory: TemporaryDirectory
    var both: [Certificate] { get throws { [try Certificate(first), try Certificate(second)] } }

    init() throws {
        first = try .root(.authority("First"))
        second = try .root(.authority("Second"))
        directory = try TemporaryDirectory()
    }

    private func read(_ text: String) throws -> [Certificate] { try Certificate.certificates(in: Data(text.utf8)) }

    @Test func `a string can contain any number of certificates, in order`() throws {
        #expect(try read(first.pem + second.pem) == both)
        #expect(try read(first.pem) == [Certificate(first)])
        #expect(try read(first.pem + first.pem).count == 2)
        #expect(try read(Certificate(first).pem) == [Certificate(first)])
    }

    @Test func `keys, comments and CRLF line endings are ignored`() throws {
        let text = "Bag Attributes: ünïcode\r\n\(first.privateKeyPEM)\n# \(second.profile.commonName)\n"
        let mixed = text + first.pem + "-----BEGIN X-----\nnot base64!\n-----END X-----\n" + second.pem + "the end"
        #expect(try read(mixed) == both)
        #expect(try read(mixed.replacing("\n", with: "\r\n")) == both)
        #expect(try Certificate.certificates(in: Data([0xFF, 0xFE, 0x0A]) + Data(mixed.utf8)) == both)
        #expect(try read(mixed.replacing("\n", with: "\n\t ")) == both)
    }

    @Test func `older labels are accepted, and OpenSSL's trust settings are omitted`() throws {
        let notes = Data([0x30, 0x0C, 0x30, 0x0A, 0x06, 0x08, 0x2B, 6, 1, 5, 5, 7, 3, 1])
        let text = (first.derData + notes).base64EncodedString(options: .lineLength64Characters)
        let trusted = "-----BEGIN TRUSTED CERTIFICATE-----\n\(text)\n-----END TRUSTED CERTIFICATE-----\n"
        #expect(try read(trusted + second.pem.replacing(" CERTIFICATE-", with: " X509 CERTIFICATE-")) == both)
        #expect(try read(first.pem.replacing(" CERTIFICATE-", with: " TRUSTED CERTIFICATE-")) == [Certificate(first)])
    }

    @Test(
        arguments: [
            // OpenSSL's settings reject this certificate for servers, and trust it only for mail.
            [0x30, 0x0C, 0xA0, 0x0A, 0x06, 0x08, 0x2B, 6, 1, 5, 5, 7, 3, 1],
            [0x30, 0x0C, 0x30, 0x0A, 0x06, 0x08, 0x2B, 6, 1, 5, 5, 7, 3, 4],
        ] as [[UInt8]])
    func `a certificate rejected by OpenSSL's trust settings is not trusted`(notes: [UInt8]) throws {
        let text = (first.derData + Data(notes)).base64EncodedString(options: .lineLength64Characters)
        let rejected = "-----BEGIN TRUSTED CERTIFICATE-----\n\(text)\n-----END TRUSTED CERTIFICATE-----\n"
        #expect(try read(rejected + second.pem) == [Certificate(second)])
        #expect(throws: CertificateError.noCertificate(in: "")) { try read(rejected) }
    }

    @Test(arguments: ["", " \n", "text", "-----BEGIN ", "-----BEGIN CERTIFICATE", "0"])
    func `a string without certificates is an error`(text: String) {
        #expect(throws: CertificateError.noCertificate(in: "")) { try read(text) }
    }

    @Test func `a string that contains only keys is rejected`() {
        #expect(throws: CertificateError.noCertificate(in: "")) { try read(first.privateKeyPEM) }
        #expect(throws: CertificateError.noCertificate(in: "")) {
            try Certificate.certificates(in: second.publicKeyInfo)
        }
    }

    @Test func `the error names the damaged certificate among several`() {
        let halves = second.pem.dropLast(200) + "-----END CERTIFICATE-----\n"
        #expect(throws: CertificateError.damaged(file: "", number: 2)) { try read(first.pem + halves) }
        #expect(throws: CertificateError.damaged(file: "", number: 1)) { try read(halves + first.pem) }
        // The END line is missing, with or without another block after it.
        let open = first.pem.replacing("-----END CERTIFICATE-----\n", with: "")
        #expect(throws: CertificateError.damaged(file: "", number: 1)) { try read(open + second.pem) }
        #expect(throws: CertificateError.damaged(file: "", number: 2)) { try read(second.pem + open) }
        #expect(throws: CertificateError.damaged(file: "", number: 1)) {
            try read("-----BEGIN CERTIFICATE----------END CERTIFICATE-----")
        }
    }

    @Test func `a string truncated anywhere yields complete certificates or a typed error`() throws {
        let (text, whole) = (Data((first.pem + second.pem).utf8), try both)
        for count in 0..<text.count {
            let result = Result { () throws(CertificateError) in try Certificate.certificates(in: text.prefix(count)) }
            switch result {
            case .success(let found): #expect(found == [whole[0]] || found == whole)
            case .failure(let error): #expect(error != .notACertificate)
            }
        }
    }

    @Test func `a file can be PEM or DER, and errors name it`() throws {
        let pem = try directory.write(Data((first.pem + second.pem).utf8), to: "both.txt")
        #expect(try Certificate.certificates(contentsOf: pem) == both)
        #expect(
            try Certificate.certificates(contentsOf: directory.write(first.derData, to: "a")) == [Certificate(first)])
        let more = try directory.write(first.derData + Data([0]), to: "more.der")
        #expect(throws: CertificateError.noCertificate(in: more.path)) {
            try Certificate.certificates(contentsOf: more)
        }
        let empty = try directory.write(Data(), to: "empty")
        #expect(throws: CertificateError.noCertificate(in: empty.path)) {
            try Certificate.certificates(contentsOf: empty)
        }
        let missing = directory.file("missing")
        #expect(throws: CertificateError.unreadable(file: missing.path, reason: "No such file or directory")) {
            try Certificate.certificates(contentsOf: missing)
        }
    }

    @Test func `a folder's files with known extensions are read, each certificate once`() throws {
        try directory.write(second.derData, to: "certs/b.CER")
        try directory.write(Data((first.pem + second.pem).utf8), to: "certs/a.pem")
        try directory.write(Data("no certificate".utf8), to: "certs/README.txt")
        try directory.write(Data(), to: "certs/pem")
        let certs = directory.file("certs")
        #expect(try Certificate.certificates(inDirectory: certs) == both)
        // A folder is not read, regardless of its name.
        try directory.write(Data("no certificate".utf8), to: "certs/old.pem/c.pem")
        #expect(try Certificate.certificates(inDirectory: certs) == both)
        let bad = try directory.write(Data("no certificate".utf8), to: "certs/c.crt")
        #expect(throws: CertificateError.noCertificate(in: bad.path)) {
            try Certificate.certificates(inDirectory: certs)
        }
    }

    @Test func `a folder that is missing or has no certificates is rejected`() throws {
        #expect(throws: CertificateError.noCertificate(in: directory.url.path)) {
            try Certificate.certificates(inDirectory: directory.url)
        }
        let missing = directory.file("missing")
        let file = try directory.write(Data(), to: "file")
        for folder in [missing, file] {
            let error = #expect(throws: CertificateError.self) { try Certificate.certificates(inDirectory: folder) }
            guard case .unreadable(let path, let reason)? = error else {
                return #expect(Bool(false), "\(error as Any)")
            }
            #expect(path == folder.path && !reason.isEmpty)
        }
    }

    @Test func `an error describes the problem and the file in a sentence`() {
        let errors: [CertificateError] = [
            .notACertificate, .noCertificate(in: ""), .noCertificate(in: "/a"), .damaged(file: "", number: 2),
            .damaged(file: "/a", number: 3), .unreadable(file: "/a", reason: "Why"),
        ]
        #expect(Set(errors.map(\.description)).count == errors.count)
        #expect(errors.allSatisfy { $0.errorDescription == $0.description })
        #expect(errors[4].description == "Certificate 3 in /a is damaged.")
    }
}
