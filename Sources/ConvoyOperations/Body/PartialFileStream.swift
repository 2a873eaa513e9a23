import ConvoySupport
import Foundation
import FoundationNetworking

/// Writes a download into a partial file beside its place, and puts it there when the response is accepted, over a file
/// that has its name. A download that fails leaves that file as it was.
final class PartialFileStream: OutputStream, CommittingOutputStream, FileStream {
    let fileURL: URL
    private let file: FileWriter
    private var status = Stream.Status.notOpen
    private(set) var failure: POSIXError?
    fileprivate var prepare: @Sendable () throws -> Void = {}
    fileprivate var didCommit: @Sendable () throws -> Void = {}

    init(fileURL: URL) {
        self.fileURL = fileURL
        // A name of its own, so that it is nobody else's file and not too long.
        let name = ".convoy-\(String(UInt64.random(in: 0 ... .max), radix: 36)).part"
        let partial = fileURL.deletingLastPathComponent().appendingPathComponent(name)
        file = FileWriter(path: fileURL.path, partialPath: partial.path, replaces: true)
        super.init(toMemory: ())
    }

    /// Foundation demands it of every output stream. Opening this one fails.
    required init(toMemory: ()) {
        fileURL = URL(fileURLWithPath: "")
        file = FileWriter(path: "", partialPath: "", replaces: false)
        super.init(toMemory: ())
    }

    override var streamStatus: Stream.Status { status }
    override var streamError: (any Error)? { failure }
    override var hasSpaceAvailable: Bool { status == .open }

    /// The file is created with the first byte: a response that is an error leaves nothing.
    override func open() {
        guard status == .notOpen else { return }
        do {
            try prepare()
            status = .open
        } catch {
            (failure, status) = (error as? POSIXError ?? POSIXError(.EACCES), .error)
        }
    }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        guard status == .open else { return -1 }
        do {
            try attempt { () throws(FileWritingError) in
                try file.open()
                try file.write(UnsafeRawBufferPointer(start: buffer, count: length))
            }
            return length
        } catch {
            return -1
        }
    }

    func rewind() throws {
        try attempt { () throws(FileWritingError) in if file.isOpen { try file.rewind() } }
    }

    func commit() throws {
        do {
            try attempt { () throws(FileWritingError) in try file.commit() }
        } catch {
            throw URLError(writing: fileURL, url: nil, underlying: error)
        }
        status = .closed
        try didCommit()
    }

    override func close() {
        file.discard()
        if status != .error { status = .closed }
    }

    private func attempt(_ body: () throws(FileWritingError) -> Void) throws {
        do throws(FileWritingError) {
            try body()
        } catch {
            let failure = error.posixError
            (self.failure, status) = (failure, .error)
            throw failure
        }
    }
}

extension OutputStreamBox {
    /// A stream for a response that is to go into a file.
    ///
    /// - Parameters:
    ///   - preparing: called before the file is made.
    ///   - didCommit: called when the file has its name; an error that it throws fails the operation. Both on a thread that
    ///     may block.
    package static func file(
        at fileURL: URL, preparing: @escaping @Sendable () throws -> Void, didCommit: @escaping @Sendable () throws -> Void
    ) -> Self {
        let stream = PartialFileStream(fileURL: fileURL)
        (stream.prepare, stream.didCommit) = (preparing, didCommit)
        return Self(stream: stream)
    }
}
