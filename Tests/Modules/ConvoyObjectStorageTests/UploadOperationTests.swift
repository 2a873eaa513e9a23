import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyUploads
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyObjectStorage

/// Uploads to a storage as operations.
@Suite(.serialized, .needsMoto) struct UploadOperationTests {
    @Test func `an interrupted upload resumes with the missing parts`() async throws {
        let storage = try SharedMoto.storage { configuration in
            (configuration.partSize, configuration.concurrentParts) = (5 << 20, 1)
        }
        let directory = try TemporaryDirectory(prefix: "convoy-storage-upload")
        var random = SplitMix64(seed: 3)
        let bytes = random.data(count: (16 << 20) + 123)
        let file = directory.file("film.mkv")
        try bytes.write(to: file)
        let first = try storage.makeUpload(of: file, key: "films/film.mkv")
        first.completionQueue = .global()
        first.uploadProgressHandler = { [weak first] _, total, _ in if total >= 5 << 20 { first?.cancel() } }
        try? await first.finished()
        #expect(first.error != nil)
        let journals = try FileManager.default.contentsOfDirectory(atPath: directory.url.path).filter {
            $0.hasSuffix(".convoyupload")
        }
        #expect(journals.count == 1)

        let second = try storage.makeUpload(of: file, key: "films/film.mkv")
        second.completionQueue = .global()
        let seen = Locked<[Int64]>([])
        second.uploadProgressHandler = { _, total, _ in seen.withLock { $0.append(total) } }
        try await second.finished()
        #expect(try await storage.get("films/film.mkv") == bytes)
        #expect((second.responseObject as? StoredObject)?.size == Int64(bytes.count))
        #expect(second.uploadProgress.fractionCompleted == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url.path) == ["film.mkv"])

        try Data(count: 100).write(to: file)
        #expect(seen.withLock { $0.last } == Int64(bytes.count))
    }

    @Test func `a file that fits in one part is sent in one request`() async throws {
        let storage = try SharedMoto.storage { $0.partSize = 5 << 20 }
        let directory = try TemporaryDirectory(prefix: "convoy-storage-upload")
        for count in [0, 5 << 20] {
            let bytes = PatternBytes.data(count: count)
            let upload = try storage.makeUpload(of: try directory.write(bytes, to: "a"), key: "a")
            upload.completionQueue = .global()
            try await upload.finished()
            #expect(try await storage.get("a") == bytes)
            #expect((upload.responseObject as? StoredObject)?.entityTag?.contains("-") == false)
            #expect(upload.uploadProgress.bytesConfirmed == Int64(count))
        }
    }

    @Test func `an upload that starts over because its file has changed aborts the earlier one`() async throws {
        let storage = try SharedMoto.storage { configuration in
            (configuration.partSize, configuration.concurrentParts) = (5 << 20, 1)
        }
        let directory = try TemporaryDirectory(prefix: "convoy-storage-upload")
        let file = try directory.write(PatternBytes.data(count: 11 << 20), to: "a")
        let first = try storage.makeUpload(of: file, key: "a")
        first.completionQueue = .global()
        first.uploadProgressHandler = { [weak first] _, total, _ in if total >= 5 << 20 { first?.cancel() } }
        try? await first.finished()
        let bytes = PatternBytes.data(count: 12 << 20)
        try bytes.write(to: file)
        let second = try storage.makeUpload(of: file, key: "a")
        (second.completionQueue, second.resumption) = (.global(), .resumeUnlessChanged)
        try await second.finished()
        #expect(try await storage.get("a") == bytes)
        let address = "\(storage.configuration.endpoint)/\(storage.configuration.bucket)?uploads"
        let list = HTTPRequestOperation(request: URLRequest(url: try #require(URL(string: address))))
        try await list.finished()
        let document = String(decoding: list.responseData ?? Data(), as: UTF8.self)
        #expect(document.contains("ListMultipartUploadsResult") && !document.contains("<Upload>"))
    }
}
