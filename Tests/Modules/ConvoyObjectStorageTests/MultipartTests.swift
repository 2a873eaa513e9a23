import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyObjectStorage

/// Multipart uploads to moto.
@Suite(.needsMoto) struct MultipartTests {
    private static let mebibyte = 1 << 20

    /// Creates a file of 12 MiB and one byte: two parts of 5 MiB, and a shorter one.
    private func source(_ directory: TemporaryDirectory) throws -> (file: URL, data: Data) {
        let data = PatternBytes.data(count: 12 * Self.mebibyte + 1)
        return (try directory.write(data, to: "source.bin"), data)
    }

    private func storage() throws -> ObjectStorage {
        try SharedMoto.storage { ($0.partSize, $0.multipartThreshold) = (1, 6 << 20) }
    }

    @Test func `a large file is uploaded in parts`() async throws {
        let directory = try TemporaryDirectory()
        let (file, data) = try source(directory)
        let storage = try storage()
        let stored = try await storage.put(fileAt: file, key: "a/large file", metadata: ["a": "b"])
        #expect(stored.entityTag?.contains("-3") == true && stored.size == Int64(data.count))
        #expect(try await storage.get("a/large file") == data)
        #expect(try await storage.head("a/large file").metadata == ["a": "b"])
    }

    /// With checksums, the upload accepts a stored part only if the server lists its checksum, which moto does not
    /// support. Without checksums, it compares the entity tag.
    @Test(arguments: [(ObjectStorage.ChecksumField.sha256, [2, 3]), (.md5, [3]), (.none, [3])])
    func `an upload resumes from its stored value and sends only the missing parts`(
        _ checksum: ObjectStorage.ChecksumField, _ missing: [Int]
    ) async throws {
        struct Interrupted: Error {}
        let directory = try TemporaryDirectory()
        let (file, data) = try source(directory)
        let storage = try SharedMoto.storage { ($0.partSize, $0.concurrentParts, $0.checksum) = (1, 1, checksum) }
        let upload = try await storage.beginUpload(of: file, key: "a")
        #expect(upload.partCount == 3)
        let note = directory.file("note.json")
        try JSONEncoder().encode(upload).write(to: note)
        // The second part was sent, but the value that contains it was not stored.
        await #expect(throws: Interrupted.self) {
            try await storage.resume(upload) { upload in
                if upload.parts.count == 2 { throw Interrupted() }
                try JSONEncoder().encode(upload).write(to: note)
            }
        }
        let stored = try JSONDecoder().decode(MultipartUpload.self, from: Data(contentsOf: note))
        #expect(stored.parts.map(\.number) == [1] && stored.sentSize == 5 << 20)
        let sent = Locked<[Int]>([])
        let object = try await storage.resume(stored) { upload in
            #expect(upload.sentSize == upload.parts.reduce(0) { $0 + ($1.number == 3 ? 2 << 20 + 1 : 5 << 20) })
            sent.withLock { $0.append(upload.parts.count) }
        }
        #expect(sent.withLock { $0 } == missing)
        #expect(object.entityTag?.contains("-3") == true)
        #expect(try await storage.get("a") == data)
        let error = await storageError { try await storage.resume(stored) }
        #expect(error?.code == .noSuchUpload)
    }

    @Test func `resuming an upload of a changed source fails, and the upload can be aborted`() async throws {
        let directory = try TemporaryDirectory()
        let (file, data) = try source(directory)
        let storage = try storage()
        let upload = try await storage.beginUpload(of: file, key: "a")
        var other = data
        other[7] ^= 1
        try other.write(to: file)
        let error = await storageError { try await storage.resume(upload) }
        #expect(error?.code == .sourceChanged && error?.key == "a")
        try await storage.abort(upload)
        try await storage.abort(upload)
        let none = await storageError { _ = try await storage.head("a") }
        #expect(none?.code == .noSuchKey)
    }

    @Test func `the part size grows with the file size`() throws {
        let mebibyte: Int64 = 1 << 20
        #expect(try MultipartUpload.partSize(for: 0, wanted: 0) == 5 * mebibyte)
        #expect(try MultipartUpload.partSize(for: 50_000 * mebibyte, wanted: 1) == 5 * mebibyte)
        #expect(try MultipartUpload.partSize(for: 50_000 * mebibyte + 1, wanted: 1) == 6 * mebibyte)
        #expect(try MultipartUpload.partSize(for: 5 << 40, wanted: 16 * mebibyte) == 525 * mebibyte)
        let error = #expect(throws: ObjectStorageError.self) { try MultipartUpload.partSize(for: 5 << 40 + 1, wanted: 1) }
        #expect(error?.code == .sourceTooLarge)
    }

    @Test func `decoding a damaged upload value fails`() async throws {
        let directory = try TemporaryDirectory()
        let (file, _) = try source(directory)
        let storage = try storage()
        let upload = try await storage.beginUpload(of: file, key: "a")
        let text = String(decoding: try JSONEncoder().encode(upload), as: UTF8.self)
        let part = "{\"number\":NUMBER,\"entityTag\":\"x\",\"sha256\":\"\"}"
        let changes =
            ["0", "1", "-1", "\(Int64.max)", "\(Int64.min)"].map { ("\"partSize\":5242880", "\"partSize\":\($0)") }
            + ["0", "-1", "4", "\(Int.max)", "\(Int.min)"].map {
                ("\"parts\":[]", "\"parts\":[\(part.replacing("NUMBER", with: $0))]")
            }
        for (part, other) in changes {
            #expect(text.contains(part))
            let error = await storageError {
                _ = try JSONDecoder().decode(
                    MultipartUpload.self, from: Data(text.replacingOccurrences(of: part, with: other).utf8))
            }
            #expect(error?.code == .invalidConfiguration, "\(other)")
        }
        try await storage.abort(upload)
    }
}
