import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyObjectStorage

/// Operations on single objects, with moto.
@Suite(.needsMoto) struct ObjectTests {
    @Test func `stored data is returned unchanged, with its type and metadata`() async throws {
        let storage = try SharedMoto.storage()
        let data = Data("Hello, ü!".utf8)
        let stored = try await storage.put(
            data, key: "greeting", contentType: "text/plain", metadata: ["Author": "Ada", "note": "two  spaces"])
        #expect(stored.size == 10 && stored.key == "greeting")
        #expect(try await storage.get("greeting") == data)
        let head = try await storage.head("greeting")
        #expect(head.size == 10 && head.contentType == "text/plain" && head.metadata["author"] == "Ada")
        #expect(head.entityTag == stored.entityTag && head.entityTag != nil && head.lastModified != nil)
    }

    @Test(arguments: [
        "a b", "a+b", "a%2Fb", "ü/ß/😀", "//double//", "a?b=c&d#e", "q=\"'<>", "tilde~!*()", "trailing/", "%", ".hidden/...",
        "a;b,c:@$",
    ])
    func `keys with any characters identify distinct objects`(_ key: String) async throws {
        let storage = try SharedMoto.storage { $0.prefix = "pre fix/" }
        let data = Data(key.utf8)
        try await storage.put(data, key: key)
        #expect(try await storage.get(key) == data)
        let listing = try await storage.list()
        #expect(listing.objects.map(\.key) == [key])
        try await storage.copy(key, to: "copy")
        #expect(try await storage.get("copy") == data)
        try await storage.delete(key)
        #expect(try await storage.list().objects.map(\.key) == ["copy"])
    }

    @Test func `reading or copying a missing object fails with noSuchKey, but deleting it succeeds`() async throws {
        let storage = try SharedMoto.storage()
        var error = await storageError { _ = try await storage.get("none") }
        #expect(error?.code == .noSuchKey && error?.statusCode == 404 && error?.key == "none")
        error = await storageError { _ = try await storage.head("none") }
        #expect(error?.code == .noSuchKey && error?.key == "none")
        try await storage.delete("none")
        error = await storageError { try await storage.copy("none", to: "copy") }
        #expect(error?.code == .noSuchKey)
    }

    @Test func `an upload to a missing bucket fails with noSuchBucket`() async throws {
        let storage = try SharedMoto.storage { $0.bucket = "there-is-none" }
        let error = await storageError { try await storage.put(Data(), key: "a") }
        #expect(error?.code == .noSuchBucket && error?.bucket == "there-is-none")
    }

    @Test func `an uploaded file is returned unchanged`() async throws {
        let storage = try SharedMoto.storage()
        let directory = try TemporaryDirectory()
        for size in [0, 1, 300_000] {
            let data = PatternBytes.data(count: size)
            let file = try directory.write(data, to: "\(size).json")
            let stored = try await storage.put(fileAt: file, key: "file")
            #expect(stored.size == Int64(size))
            #expect(try await storage.get("file") == data)
            #expect(try await storage.head("file").contentType == "application/json")
        }
    }

    @Test func `listings support pages, prefixes and a delimiter`() async throws {
        let storage = try SharedMoto.storage { $0.prefix = "root/" }
        for key in ["a", "b/1", "b/2", "b/c/3", "d"] { try await storage.put(Data(key.utf8), key: key) }
        var keys: [[String]] = []
        for try await page in storage.pages(limit: 2) { keys.append(page.objects.map(\.key)) }
        #expect(keys == [["a", "b/1"], ["b/2", "b/c/3"], ["d"]])
        let top = try await storage.list(delimiter: "/")
        #expect(top.objects.map(\.key) == ["a", "d"] && top.commonPrefixes == ["b/"])
        let inner = try await storage.list(prefix: "b/", delimiter: "/")
        #expect(inner.objects.map(\.key) == ["b/1", "b/2"] && inner.commonPrefixes == ["b/c/"])
        let object = try #require(inner.objects.first)
        #expect(object.size == 3 && object.entityTag != nil && object.lastModified != nil)
        #expect(try await storage.list(prefix: "none").objects.isEmpty)
    }

    @Test func `an object named like the prefix is not listed`() async throws {
        let bucket = try SharedMoto.storage()
        var configuration = bucket.configuration
        configuration.prefix = "root/"
        let storage = try ObjectStorage(configuration, credentials: .testing)
        try await bucket.put(Data(), key: "root/")
        try await storage.put(Data(), key: "a")
        #expect(try await storage.list().objects.map(\.key) == ["a"])
    }

    @Test func `operations support dependencies and provide results`() async throws {
        let storage = try SharedMoto.storage()
        let put = try storage.makePutOperation(Data("1".utf8), key: "a")
        let get = try storage.makeGetOperation("a")
        let delete = try storage.makeDeleteOperation("a")
        get.addDependency(put)
        delete.addDependency(get)
        storage.manager.enqueue([delete, get, put])
        try await delete.finished()
        #expect((put.responseObject as? StoredObject)?.size == 1)
        #expect(get.responseObject as? Data == Data("1".utf8))
        let error = await storageError { _ = try await storage.head("a") }
        #expect(error?.code == .noSuchKey)
    }

    @Test func `a presigned URL needs no credentials`() async throws {
        let storage = try SharedMoto.storage()
        let data = Data("for all".utf8)
        try await storage.put(data, key: "a b")
        let url = try storage.presignedURL(for: "a b", expiresIn: 60)
        let operation = HTTPRequestOperation(request: URLRequest(url: url))
        try await operation.finished()
        #expect(operation.responseData == data)
        #expect(!"\(operation)".contains(try #require(url.absoluteString.split(separator: "Signature=").last)))
    }

    @Test func `an object can be downloaded to a file with a presigned URL`() async throws {
        let storage = try SharedMoto.storage()
        let data = PatternBytes.data(count: 300_000)
        try await storage.put(data, key: "a b")
        let directory = try TemporaryDirectory()
        let file = directory.file("copy")
        let request = URLRequest(url: try storage.presignedURL(for: "a b"))
        try await DownloadOperation(request: request, destination: file).finished()
        #expect(try Data(contentsOf: file) == data)
    }

    @Test func `metadata that cannot be sent is rejected before any request`() async throws {
        let storage = try SharedMoto.storage()
        for metadata in [["a b": "c"], ["a": "ü"], ["a": "b\r\nc: d"], ["A": "1", "a": "2"]] {
            let error = await storageError { try await storage.put(Data(), key: "a", metadata: metadata) }
            #expect(error?.code == .invalidMetadata)
        }
        let error = await storageError { try await storage.put(Data(), key: "a", contentType: "a\nb") }
        #expect(error?.code == .invalidMetadata)
    }
}
