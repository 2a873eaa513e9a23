import Foundation

/// Reading certificates, in PEM or DER. Blocks while files are read.
extension Certificate {
    /// All certificates of a text in PEM, in their order, or the one of bytes in DER. What is not a certificate, as keys
    /// and comments, is skipped, and so is one that OpenSSL's notes reject for servers ("TRUSTED CERTIFICATE").
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
        do throws(FileReading.Failure) {
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
        do throws(FileReading.Failure) {
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
            guard let der = block.derData, let certificate = try? Certificate(der, hasNotes: block.hasNotes) else {
                throw .damaged(file: file, number: count)
            }
            // Without its notes, as equal certificates have to be equally good.
            if !block.hasNotes {
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
