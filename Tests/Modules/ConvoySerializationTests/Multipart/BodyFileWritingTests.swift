import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct BodyFileWritingTests {
    private let serializer = HTTPRequestSerializer()

    private func request() throws -> URLRequest {
        try serializer.multipartFormRequest(url: exampleURL) { form in
            form.appendPart(formData: Data((0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }), name: "n")
        }
    }

    @Test func `the file contains every byte, and the request keeps its headers and stream`() async throws {
        let directory = try TemporaryDirectory()
        let file = directory.url.appendingPathComponent("body")
        let request = try request()
        let bodiless = try await serializer.writeMultipartBody(of: request, to: file)
        #expect(bodiless.httpBodyStream == nil)
        #expect(bodiless.httpBody == nil)
        #expect(bodiless.allHTTPHeaderFields == request.allHTTPHeaderFields)
        let written = try Data(contentsOf: file)
        #expect(bodiless.value(forHTTPHeaderField: "Content-Length") == String(written.count))
        #expect(request.httpBodyStream.flatMap { readAll($0) } == written)
    }

    @Test func `a handler is called on its queue`() async throws {
        let directory = try TemporaryDirectory()
        let file = directory.url.appendingPathComponent("body")
        let queue = DispatchQueue(label: "test")
        let key = DispatchSpecificKey<Bool>()
        queue.setSpecific(key: key, value: true)
        let request = try request()
        let (error, onQueue) = try await withCheckedThrowingContinuation { continuation in
            do {
                let bodiless = try serializer.writeMultipartBody(of: request, to: file, completionQueue: queue) {
                    error in
                    continuation.resume(returning: (error.map { $0 as NSError }, DispatchQueue.getSpecific(key: key)))
                }
                #expect(bodiless.httpBodyStream == nil)
            } catch {
                continuation.resume(throwing: error)
            }
        }
        #expect(error == nil)
        #expect(onQueue == true)
        #expect(FileManager.default.fileExists(atPath: file.path))
    }

    @Test func `a failure leaves only the old file`() async throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(bytes("old"), to: "body")
        let source = try directory.write(Data(count: 1000), to: "source")
        let request = try serializer.multipartFormRequest(url: exampleURL) {
            try $0.appendPart(fileURL: source, name: "f")
        }
        try Data(count: 10).write(to: source)
        let error = await #expect(throws: NSError.self) {
            try await serializer.writeMultipartBody(of: request, to: file)
        }
        #expect(reason(error) == .unusableFile)
        #expect(try Data(contentsOf: file) == bytes("old"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url.path).sorted() == ["body", "source"])
    }

    @Test func `an unwritable destination fails with the system's error`() async throws {
        let file = URL(fileURLWithPath: "/nonexistent/directory/body")
        let request = try request()
        let error = await #expect(throws: NSError.self) {
            try await serializer.writeMultipartBody(of: request, to: file)
        }
        #expect(error?.domain == NSPOSIXErrorDomain)
        #expect(error?.code == Int(ENOENT))
    }

    @Test func `a body whose length differs from its Content-Length fails`() async throws {
        let directory = try TemporaryDirectory()
        var request = URLRequest(url: exampleURL)
        request.httpBodyStream = InputStream(data: bytes("abc"))
        request.setValue("4", forHTTPHeaderField: "Content-Length")
        let file = directory.url.appendingPathComponent("body")
        let wrong = request
        let error = await #expect(throws: NSError.self) { try await serializer.writeMultipartBody(of: wrong, to: file) }
        #expect(error?.code == NSURLErrorRequestBodyStreamExhausted)
        #expect(!FileManager.default.fileExists(atPath: file.path))
    }

    @Test func `a stream that returns more bytes than requested fails`() async throws {
        let directory = try TemporaryDirectory()
        var request = URLRequest(url: exampleURL)
        request.httpBodyStream = BoastfulStream(data: bytes("abc"))
        let boastful = request
        let file = directory.url.appendingPathComponent("body")
        let error = await #expect(throws: NSError.self) {
            try await serializer.writeMultipartBody(of: boastful, to: file)
        }
        #expect(error?.code == NSURLErrorRequestBodyStreamExhausted)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url.path).isEmpty)
    }

    @Test func `a request without a stream and a URL that is not a file fail immediately`() throws {
        let plain = URLRequest(url: exampleURL)
        let request = try request()
        #expect(
            failure { try serializer.writeMultipartBody(of: plain, to: URL(fileURLWithPath: "/tmp/x")) { _ in } } != nil
        )
        #expect(
            reason(failure { try serializer.writeMultipartBody(of: request, to: exampleURL) { _ in } }) == .unusableFile
        )
    }

    @Test func `a cancelled task stops the writing and leaves no file`() async throws {
        let directory = try TemporaryDirectory()
        let file = directory.url.appendingPathComponent("body")
        let request = try request()
        let serializer = serializer
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await serializer.writeMultipartBody(of: request, to: file)
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url.path).isEmpty)
    }
}

/// A custom stream whose `read` returns more than the size of the buffer.
private final class BoastfulStream: InputStream {
    override var streamStatus: Stream.Status { .open }
    override var hasBytesAvailable: Bool { true }
    override func open() {}
    override func close() {}
    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength len: Int) -> Int { len + 1 }
}
