import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyDownloads

/// Tests that downloads of files whose tags contain arbitrary bytes resume with these bytes or start over, even in
/// another process.
@Suite struct EchoedDownloadTests {
    let server: ValidatorServer
    let directory: TemporaryDirectory

    init() throws {
        server = try ValidatorServer()
        directory = try TemporaryDirectory(prefix: "echoed")
    }

    private func download(_ name: String, _ change: (DownloadOperation) -> Void = { _ in }) async -> DownloadOperation {
        let operation = DownloadOperation(request: URLRequest(url: server.url(name)), destination: directory.file(name))
        operation.completionQueue = .global()
        change(operation)
        operation.start()
        try? await operation.finished()
        return operation
    }

    @Test func `an interrupted download resumes with the exact bytes of the tag, or starts over`() async throws {
        for (byte, tag, isSendable) in ValidatorServer.tags {
            server.tag = tag
            server.cuts = true
            let first = await download("\(byte)")
            #expect((first.error as? URLError)?.code == .networkConnectionLost, "\(byte): \(first)")
            server.cuts = false
            _ = server.takeRequests()
            let second = await download("\(byte)")
            #expect(second.error == nil, "\(byte): \(second)")
            #expect(try Data(contentsOf: directory.file("\(byte)")) == ValidatorServer.body, "\(byte)")
            let request = server.takeRequests().first
            #expect(request?.field("If-Range") == (isSendable ? tag : nil), "\(byte)")
            #expect((request?.field("Range") != nil) == isSendable, "\(byte)")
        }
    }

    @Test func `an existing file is revalidated with the exact bytes of its tag`() async throws {
        for (byte, tag, isSendable) in ValidatorServer.tags {
            server.tag = tag
            _ = await download("\(byte)")
            _ = server.takeRequests()
            let second = await download("\(byte)") { $0.existingFilePolicy = .revalidate }
            #expect(second.error == nil, "\(byte): \(second)")
            #expect(try Data(contentsOf: directory.file("\(byte)")) == ValidatorServer.body, "\(byte)")
            // If the file system does not support attributes, only the time is available.
            guard let condition = server.takeRequests().first?.field("If-None-Match") else { continue }
            #expect(isSendable && condition == tag, "\(byte)")
        }
    }

    /// Returns a journal with an unmodified tag.
    private func journal(tag: String, of url: URL, length: Int, mark: String) throws -> [UInt8] {
        let (validators, ranges) = (
            RepresentationFacts.Validators(entityTag: "\"x\"", lastModified: nil), ByteRanges([0..<Int64(length)])
        )
        let entry = JournalEntry(
            number: 1, mark: mark, representation: Representation(url: url, validators: validators, total: 200_000),
            bytes: ranges)
        let text = String(decoding: try #require(entry.text), as: UTF8.self)
        let escaped = String(decoding: try JSONEncoder().encode(tag), as: UTF8.self)
        let json = try #require(text.split(separator: "\n").last).replacingOccurrences(of: "\"\\\"x\\\"\"", with: escaped)
        let digest = MessageDigest()
        digest.update(Data(json.utf8))
        let check = try #require(digest.value()).hexadecimalString.prefix(16)
        return Array("convoy-journal 2 1 \(json.utf8.count) \(check)\n\(json)\n".utf8)
    }

    @Test func `a journal whose tag cannot be sent claims no bytes`() async throws {
        let url = server.url("old")
        for (tag, isUsable) in [("\"a\"", true), ("\"a\u{1}\"", false), ("\"a\rb\"", false), ("\"\u{7F}\"", false)] {
            let text = try journal(tag: tag, of: url, length: 50_000, mark: "")
            let entry = try #require(JournalEntry(text: text[...]), "\(tag.debugDescription)")
            #expect(entry.bytes.isEmpty == !isUsable, "\(tag.debugDescription)")
        }
        server.tag = Array("\"a\u{1}\"".utf8)
        let paths = PartialPaths(destination: directory.file("old").path)
        try ValidatorServer.body.prefix(50_000).write(to: URL(fileURLWithPath: paths.partial))
        let descriptor = Foundation.open(paths.partial, O_RDONLY | O_CLOEXEC)
        let mark = try #require(FileIdentity.mark(of: descriptor))
        close(descriptor)
        let text = try journal(tag: "\"a\u{1}\"", of: url, length: 50_000, mark: mark)
        try Data(text).write(to: URL(fileURLWithPath: paths.journal))
        try #require(chmod(paths.journal, 0o600) == 0)
        let operation = await download("old")
        #expect(operation.error == nil, "\(operation)")
        #expect(try Data(contentsOf: directory.file("old")) == ValidatorServer.body)
        #expect(server.takeRequests().first?.field("Range") == nil)
    }
}
