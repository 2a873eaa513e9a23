import ConvoyOperations
import ConvoySupport
import ConvoyTestSupport
import ConvoyUploads
import Foundation
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
}
