#if Images
import ConvoySerialization
import Foundation
import FoundationNetworking

/// An image on this machine: a file, or the content of a `data:` URL (RFC 2397).
struct LocalImage: Sendable {
    private let url: URL

    /// Creates an image for a `file:` or `data:` URL; nil for other URLs.
    init?(_ url: URL) {
        guard let scheme = url.scheme?.lowercased(), scheme == "data" || scheme == "file" else { return nil }
        self.url = url
    }

    /// The state of the file, which is part of the key in the memory cache.
    var identification: [String: String] {
        var info = stat()
        guard url.isFileURL, stat(url.path, &info) == 0 else { return [:] }
        return ["file": "\(info.st_mtim.tv_sec).\(info.st_mtim.tv_nsec) \(info.st_size) \(info.st_ino)"]
    }

    /// Returns the bytes of the image.
    ///
    /// - Throws: `URLError`, or -1103 with `ResponseLimitExceeded.bodySize`.
    func data(limit: Int, allowsFiles: Bool) throws -> Data {
        let data = url.isFileURL ? try file(limit, isAllowed: allowsFiles) : try content(limit)
        guard data.count <= limit else { throw Self.tooLarge(limit) }
        return data
    }

    private func file(_ limit: Int, isAllowed: Bool) throws -> Data {
        guard isAllowed else { throw failure(.unsupportedURL, "Images in files are not loaded.") }
        // Opening a pipe would block without this flag.
        let descriptor = open(url.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            let reason = String(cString: strerror(errno))
            let code: URLError.Code =
                switch errno {
                case ENOENT, ENOTDIR: .fileDoesNotExist
                case EACCES, EPERM: .noPermissionsToReadFile
                default: .cannotOpenFile
                }
            throw failure(code, "The file \(url.path) cannot be opened: \(reason).")
        }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var info = stat()
        guard fstat(descriptor, &info) == 0, info.st_mode & S_IFMT == S_IFREG else {
            throw failure(.cannotOpenFile, "\(url.path) is not a regular file.")
        }
        guard info.st_size <= limit else { throw Self.tooLarge(limit) }
        // The file may grow in the meantime.
        return try handle.read(upToCount: limit + 1) ?? Data()
    }

    private func content(_ limit: Int) throws -> Data {
        let text = url.absoluteString
        guard text.utf8.count / 4 <= limit, let comma = text.firstIndex(of: ",") else {
            if text.utf8.count / 4 > limit { throw Self.tooLarge(limit) }
            throw failure(.badURL, "The data: URL has no comma.")
        }
        let isBase64 = text[..<comma].lowercased().hasSuffix(";base64")
        let bytes = Self.unescaped(text[text.index(after: comma)...])
        guard isBase64 else { return bytes }
        guard let decoded = Data(base64Encoded: bytes, options: .ignoreUnknownCharacters) else {
            throw failure(.cannotDecodeRawData, "The data: URL is not valid Base64.")
        }
        return decoded
    }

    /// Decodes percent-encoded bytes, which need not be valid UTF-8.
    private static func unescaped(_ text: Substring) -> Data {
        var data = Data(capacity: text.utf8.count)
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), rest.count >= 2, let value = UInt8(String(rest.prefix(2)) ?? "", radix: 16) {
                data.append(value)
                rest = rest.dropFirst(2)
            } else {
                data.append(byte)
            }
        }
        return data
    }

    private func failure(_ code: URLError.Code, _ message: String) -> URLError { URLError(code, url: url, message) }

    private static func tooLarge(_ limit: Int) -> NSError {
        .limit(.bodySize, "The image has more than \(limit) bytes.", nil)
    }
}
#endif
