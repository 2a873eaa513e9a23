import Convoy
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A sink that counts the body of a response, hashes it, and writes it to a partial file if there is a destination.
///
/// The file is created with the first byte, so that an error response leaves no file. It is renamed to its final name
/// before the operation finishes, so that dependent requests can read it.
final class BodyFile: BodyCounting {
    /// The state of the file, which is used only while holding the lock.
    private struct Receipt: @unchecked Sendable {
        var file: FileWriter?
        var digest: MessageDigest?
        var count: Int64 = 0
        var failure: ToolError?
        var isCommitted = false
        var isOver = false
        var replaces = false
        /// The closure to call before the first byte.
        var start: BodyStart?

        /// Performs an action on the file and records its failure.
        mutating func attempt(_ body: (inout Receipt) throws(FileWritingError) -> Void) throws(URLError) {
            do throws(FileWritingError) {
                try body(&self)
            } catch {
                let failure = FileProblem.error(error)
                // The engine retries when a descriptor is available.
                guard !error.cause.lacksDescriptor else {
                    throw URLError(.cannotWriteToFile, url: nil, failure.text, underlying: error.posixError)
                }
                self.failure = failure
                isOver = true
                throw URLError(.cannotWriteToFile, url: nil, failure.text, underlying: failure)
            }
        }
    }

    private let receipt: Locked<Receipt>
    let path: String?

    /// - Parameter path: The destination, or nil to discard the body.
    init(path: String?, replaces: Bool, hashes: Bool) {
        self.path = path
        receipt = Locked(
            Receipt(
                file: path.map { FileWriter(path: $0, partialPath: FileNames.partial(of: $0), replaces: replaces) },
                digest: hashes ? MessageDigest() : nil, replaces: replaces))
    }

    // MARK: For the engine

    var isProvisional: Bool { true }
    var opensFile: Bool { path != nil }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        guard count > 0 else { return }
        try attempt { (receipt) throws(FileWritingError) in
            if let file = receipt.file, file.isOpen { try file.rewind() }
            if receipt.digest != nil { receipt.digest = MessageDigest() }
            receipt.count = 0
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) {
        if let start = receipt.withLock({ $0.start.take() }) {
            do throws(ToolError) {
                _ = try start()
            } catch {
                receipt.withLock { ($0.failure, $0.isOver) = (error, true) }
                throw URLError(.cannotWriteToFile, url: nil, error.text, underlying: error)
            }
        }
        try attempt { (receipt) throws(FileWritingError) in
            try receipt.file?.open()
            try receipt.file?.write(bytes)
            receipt.digest?.update(bytes)
            receipt.count += Int64(bytes.count)
        }
    }

    func synchronize() throws(URLError) {
        try attempt { (receipt) throws(FileWritingError) in try receipt.file?.synchronize() }
    }

    /// Renames the file of the complete body to its final name.
    func commit() throws {
        try attempt { (receipt) throws(FileWritingError) in
            try receipt.file?.commit()
            receipt.isOver = true
            receipt.isCommitted = true
        }
    }

    /// Removes the partial file unless it has been committed. Later writes fail.
    func discard() {
        receipt.withLock { receipt in
            receipt.file?.discard()
            receipt.isOver = true
        }
    }

    private func attempt(_ body: (inout Receipt) throws(FileWritingError) -> Void) throws(URLError) {
        try receipt.withLock { receipt throws(URLError) in
            guard !receipt.isOver else { throw URLError(.cancelled, url: nil, ToolError.cancelled.text) }
            try receipt.attempt(body)
        }
    }

    // MARK: For the transfer

    func onStart(_ start: @escaping BodyStart) { receipt.withLock { $0.start = start } }

    /// Writes a complete file in one step.
    func keep(_ body: Data) throws(ToolError) {
        guard let path else { return }
        let replaces = receipt.withLock { $0.replaces }
        let file = FileWriter(path: path, partialPath: FileNames.partial(of: path), replaces: replaces)
        do throws(FileWritingError) {
            try file.open()
            let written = body.withUnsafeBytes { bytes in
                Result { () throws(FileWritingError) in try file.write(bytes) }
            }
            try written.get()
            try file.commit()
        } catch {
            file.discard()
            throw FileProblem.error(error)
        }
    }

    var count: Int64 { receipt.withLock { $0.count } }

    /// Whether the file has been renamed to its final name.
    var isCommitted: Bool { receipt.withLock { $0.isCommitted } }

    /// The write error, with a better message than the engine's.
    var failure: ToolError? { receipt.withLock { $0.failure } }

    /// The SHA-256 digest of all bytes, in hexadecimal digits.
    var sha256: String? { receipt.withLock { $0.digest?.value()?.hexadecimalString } }
}
