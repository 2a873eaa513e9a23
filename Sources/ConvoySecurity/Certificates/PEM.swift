import ConvoySupport
import Foundation

/// A parser for PEM, the textual encoding of keys and certificates (RFC 7468).
enum PEM {
    /// The content between a BEGIN and an END line.
    struct Block {
        let label: String
        /// The text between the lines, including the header fields of a traditional encrypted key.
        let text: Substring

        var isCertificate: Bool {
            label == "CERTIFICATE" || label == "X509 CERTIFICATE" || label == "TRUSTED CERTIFICATE"
        }

        /// Whether OpenSSL's trust settings follow the certificate.
        var hasTrustSettings: Bool { label == "TRUSTED CERTIFICATE" }

        /// The decoded bytes; nil if the text is not valid Base64.
        var derData: Data? {
            // Foundation ignores characters that are not Base64, and everything after the padding. Without this check,
            // a block with a missing END line would silently swallow the next block.
            let rest = text.utf8.drop { $0 != UInt8(ascii: "=") }
            let isWhole = rest.allSatisfy { $0 == UInt8(ascii: "=") || $0 <= UInt8(ascii: " ") }
            guard isWhole, !text.utf8.contains(UInt8(ascii: "-")) else { return nil }
            return Data(base64Encoded: String(text), options: .ignoreUnknownCharacters)
        }
    }

    /// The first byte of every DER structure that files contain.
    static let sequenceTag: UInt8 = 0x30

    /// Returns the blocks in PEM data. A block without an END line is damaged and has empty text.
    static func blocks(in data: Data) -> [Block] {
        guard data.range(of: Data("-----BEGIN ".utf8)) != nil else { return [] }
        let text = String(decoding: data, as: UTF8.self)
        var blocks: [Block] = []
        var rest = text[...]
        while let begin = rest.range(of: "-----BEGIN ") {
            rest = rest[begin.upperBound...]
            guard let dashes = rest.range(of: "-----") else { break }
            let label = String(rest[..<dashes.lowerBound])
            rest = rest[dashes.upperBound...]
            let end = rest.range(of: "-----END \(label)-----")
            blocks.append(Block(label: label, text: end.map { rest[..<$0.lowerBound] } ?? ""))
            if let end { rest = rest[end.upperBound...] }
        }
        return blocks
    }
}

/// Functions that read small files, including pipes, and the names of files in folders.
enum FileReading {
    /// The maximum size of a certificate or key file, in bytes.
    private static let limit = 64 << 20

    /// Returns the contents of a file. Blocks.
    static func data(of file: URL) throws(FileContents.Failure) -> Data {
        let descriptor = open(file.path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system(SystemError()) }
        defer { close(descriptor) }
        return Data(try FileContents.read(descriptor, limit: limit))
    }

    /// Returns the names of the files in a folder, sorted, without subfolders. Blocks.
    static func names(in folder: URL) throws(FileContents.Failure) -> [String] {
        guard let directory = opendir(folder.path) else { throw .system(SystemError()) }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            var facts = stat()
            guard fstatat(dirfd(directory), name, &facts, 0) != 0 || facts.st_mode & S_IFMT != S_IFDIR else { continue }
            names.append(name)
        }
        return names.sorted()
    }
}
