import COpenSSL
import ConvoySupport
import Foundation

/// Certificate revocation lists (RFC 5280, section 5), loaded into OpenSSL. They do not change after loading, so that
/// any thread can search them.
package final class RevocationLists: @unchecked Sendable {
    /// OpenSSL's stack of lists.
    let pointer: OpaquePointer
    /// When the first list expires; nil if no list has an expiry.
    private(set) var nextUpdate: Date?

    private init?() {
        guard let stack = convoy_crl_stack_new() else { return nil }
        pointer = stack
    }

    deinit { convoy_crl_stack_free(pointer) }

    /// Throws if the lists of these files cannot be read. Blocks.
    package static func check(_ files: [URL]) throws(RevocationListError) { _ = try read(files) }

    /// The lists of these files; nil for no files. Blocks.
    static func read(_ files: [URL]) throws(RevocationListError) -> RevocationLists? {
        guard !files.isEmpty else { return nil }
        let lists = RevocationLists()
        for file in files {
            guard let lists else { break }
            let data: Data
            do throws(FileContents.Failure) {
                data = try FileReading.data(of: file)
            } catch {
                throw .unreadable(file: file.path, reason: error.reason)
            }
            try lists.add(data, named: file.path)
        }
        guard let lists else { throw .unreadable(file: files[0].path, reason: "There is no memory.") }
        return lists
    }

    /// Adds all lists of a text in PEM, skipping other blocks, or the one of bytes in DER.
    private func add(_ data: Data, named file: String) throws(RevocationListError) {
        let blocks = PEM.blocks(in: data)
        guard !blocks.isEmpty else {
            guard data.first == PEM.sequenceTag, let list = Self.parsed(data) else { throw .noList(in: file) }
            return try add(list, 1, of: file)
        }
        var count = 0
        for block in blocks where block.label == "X509 CRL" {
            count += 1
            guard let list = block.derData.flatMap(Self.parsed) else { throw .damaged(file: file, number: count) }
            try add(list, count, of: file)
        }
        guard count > 0 else { throw .noList(in: file) }
    }

    private static func parsed(_ data: Data) -> OpaquePointer? {
        defer { ERR_clear_error() }
        return data.withUnsafeBytes { bytes -> OpaquePointer? in
            var position = bytes.bindMemory(to: UInt8.self).baseAddress
            let end = position.map { $0 + bytes.count }
            guard let list = d2i_X509_CRL(nil, &position, bytes.count) else { return nil }
            guard position == end else {
                X509_CRL_free(list)
                return nil
            }
            return list
        }
    }

    private func add(_ list: OpaquePointer, _ number: Int, of file: String) throws(RevocationListError) {
        // OpenSSL ignores delta CRLs, so that certificates they revoke would count as good.
        guard X509_CRL_get_ext_by_NID(list, NID_delta_crl, -1) < 0 else {
            X509_CRL_free(list)
            throw .changesOnly(file: file, number: number)
        }
        let end = Certificate.date(X509_CRL_get0_nextUpdate(list))
        guard convoy_crl_stack_append(pointer, list) == 1 else {
            throw .unreadable(file: file, reason: "There is no memory.")
        }
        nextUpdate = [nextUpdate, end].compactMap { $0 }.min()
    }
}

/// Why certificate revocation lists could not be read.
public enum RevocationListError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A file has no list.
    case noList(in: String)
    /// A list in a file cannot be read; its number counts from 1.
    case damaged(file: String, number: Int)
    /// A list in a file is a delta CRL, which has only the changes to another one; its number counts from 1.
    case changesOnly(file: String, number: Int)
    /// A file cannot be read, and the reason.
    case unreadable(file: String, reason: String)

    public var description: String {
        switch self {
        case .noList(let file): "There is no revocation list in \(file)."
        case .damaged(let file, let number): "Revocation list \(number) of \(file) is damaged."
        case .changesOnly(let file, let number):
            "Revocation list \(number) of \(file) has only the changes to another one, which is not supported."
        case .unreadable(let file, let reason): "\(file) cannot be read: \(reason)"
        }
    }
}

extension RevocationListError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
