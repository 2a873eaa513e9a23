import Foundation

/// Reading certificates, in PEM or DER. Blocks while files are read.
extension Certificate {
    /// All certificates of a text in PEM, in their order, or the one of bytes in DER. What is not a certificate, as keys
    /// and comments, is skipped.
    ///
    /// - Throws: `CertificateError.noCertificate`, `.damaged`.
    public static func certificates(in data: Data) throws(CertificateError) -> [Certificate] {
        try certificates(in: data, named: "")
    }

    /// All certificates of a file in PEM, in their order, or the one of a file in DER.
    ///
    /// - Throws: `CertificateError`, with the file's path.
    public static func certificates(contentsOf file: URL) throws(CertificateError) -> [Certificate] {
        let data: Data
        do {
            data = try Data(contentsOf: file)
        } catch {
            throw .unreadable(file: file.path, reason: FileReading.reason(error))
        }
        return try certificates(in: data, named: file.path)
    }

    /// The certificates of all files of a folder that are named `.cer`, `.crt`, `.der` or `.pem`, in the order of the
    /// names, each once. Subfolders are not read. The counterpart of `certificatesInBundle:`.
    ///
    /// - Throws: `CertificateError`: a file with such a name that holds no certificate is one.
    public static func certificates(inDirectory folder: URL) throws(CertificateError) -> [Certificate] {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        } catch {
            throw .unreadable(file: folder.path, reason: FileReading.reason(error))
        }
        var found: [Certificate] = []
        for name in names.sorted() where endings.contains((name as NSString).pathExtension.lowercased()) {
            let file = folder.appendingPathComponent(name)
            var isFolder: ObjCBool = false
            guard !FileManager.default.fileExists(atPath: file.path, isDirectory: &isFolder) || !isFolder.boolValue else {
                continue
            }
            found += try certificates(contentsOf: file)
        }
        guard !found.isEmpty else { throw .noCertificate(in: folder.path) }
        return found.unique
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
        for block in blocks where block.isCertificate {
            guard let der = block.derData, let certificate = try? Certificate(derData: der) else {
                throw .damaged(file: file, number: found.count + 1)
            }
            found.append(certificate)
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
