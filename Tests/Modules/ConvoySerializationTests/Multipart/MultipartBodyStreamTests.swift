import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct MultipartBodyStreamTests {
    private func stream(_ construct: (inout MultipartFormData) throws -> Void) throws -> MultipartBodyStream {
        let request = try HTTPRequestSerializer().multipartFormRequest(url: exampleURL, constructingBody: construct)
        return try #require(request.httpBodyStream as? MultipartBodyStream)
    }

    private func read(_ stream: InputStream, _ count: Int) -> Int {
        var buffer = [UInt8](repeating: 0, count: max(count, 1))
        return stream.read(&buffer, maxLength: count)
    }

    @Test func `a body stream has all stream states, and its error can be read in each`() throws {
        let stream = try stream { $0.appendPart(formData: bytes("v"), name: "n") }
        #expect(stream.streamStatus == .notOpen)
        #expect(stream.streamError == nil)
        #expect(!stream.hasBytesAvailable)
        #expect(read(stream, 10) == -1)
        stream.open()
        stream.open()
        #expect(stream.streamStatus == .open)
        #expect(stream.hasBytesAvailable)
        #expect(read(stream, 0) == 0)
        #expect(stream.hasBytesAvailable)
        #expect(Int64(read(stream, 100_000)) == stream.contentLength)
        #expect(read(stream, 10) == 0)
        #expect(stream.streamStatus == .atEnd)
        #expect(stream.streamError == nil)
        stream.close()
        #expect(stream.streamStatus == .closed)
        #expect(read(stream, 10) == -1)
    }

    @Test func `a replay yields the same bytes while the first stream is still being read`() throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data(repeating: 7, count: 10_000), to: "f")
        let stream = try stream { form in
            try form.appendPart(fileURL: file, name: "f")
            form.appendPart(name: "s", fileName: "s", length: 3, mimeType: "a/b") { InputStream(data: bytes("abc")) }
        }
        stream.open()
        #expect(read(stream, 5000) == 5000)
        let second = try #require(try stream.replay() as? MultipartBodyStream)
        #expect(second.contentLength == stream.contentLength)
        let all = try #require(readAll(second))
        #expect(Int64(all.count) == stream.contentLength)
        #expect(try readAll(stream.replay()) == all)
        #expect(readAll(stream)?.count == all.count - 5000)
    }

    @Test func `a plain stream can be replayed before it is read, but not afterwards`() throws {
        let stream = try stream { form in
            form.appendPart(
                inputStream: InputStream(data: bytes("abc")), name: "s", fileName: "s", length: 3, mimeType: "a/b")
        }
        let second = try stream.replay()
        #expect(readAll(second) != nil)
        let error = failure { try stream.replay() }
        #expect(error?.domain == URLRequestSerializationErrorDomain)
        #expect(error?.code == NSURLErrorRequestBodyStreamExhausted)
        #expect(readAll(stream) == nil)
    }

    @Test func `a part that is itself replayable is replayed`() throws {
        let inner = try stream { $0.appendPart(formData: bytes("v"), name: "n") }
        let outer = try stream { form in
            form.appendPart(inputStream: inner, name: "s", fileName: "s", length: inner.contentLength, mimeType: "a/b")
        }
        let first = try #require(readAll(outer))
        #expect(try readAll(outer.replay()) == first)
    }

    @Test(arguments: [5, 50_000, 99_999, 100_001, 200_000, 0])
    func `a file whose size has changed is an error, not a corrupt body`(size: Int) throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data(repeating: 7, count: 100_000), to: "f")
        let before = try stream { try $0.appendPart(fileURL: file, name: "f") }
        try Data(repeating: 8, count: size).write(to: file)
        #expect(readAll(before) == nil)
        #expect(before.streamStatus == .error)
        let error = before.streamError as NSError?
        #expect(error?.domain == URLRequestSerializationErrorDomain)
        #expect(error?.code == NSURLErrorRequestBodyStreamExhausted)
        #expect(reason(error) == .unusableFile)
        #expect(error?.userInfo[URLRequestSerializationErrorKey.subject] as? String == file.path)
        #expect(read(before, 10) == -1)
    }

    @Test(arguments: [60_000, 100_001])
    func `a file that changes while it is sent is an error`(size: UInt64) throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data(repeating: 7, count: 100_000), to: "f")
        let stream = try stream { try $0.appendPart(fileURL: file, name: "f") }
        stream.open()
        #expect(read(stream, 50_000) == 50_000)
        let handle = try FileHandle(forWritingTo: file)
        try handle.truncate(atOffset: size)
        try handle.close()
        #expect(read(stream, 200_000) == -1)
        #expect(reason(stream.streamError as NSError?) == .unusableFile)
    }

    @Test func `a missing file fails with the system's error`() throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(bytes("x"), to: "f")
        let stream = try stream { try $0.appendPart(fileURL: file, name: "f") }
        try FileManager.default.removeItem(at: file)
        #expect(readAll(stream) == nil)
        #expect((stream.streamError as NSError?)?.domain == NSPOSIXErrorDomain)
        #expect((stream.streamError as NSError?)?.code == Int(ENOENT))
    }

    @Test func `a form fails if a stream part ends early or fails, and does not read bytes beyond its length`() throws {
        func part(_ stream: InputStream, _ length: Int64) throws -> MultipartBodyStream {
            try self.stream {
                $0.appendPart(inputStream: stream, name: "s", fileName: "s", length: length, mimeType: "a/b")
            }
        }
        let short = try part(InputStream(data: bytes("abc")), 4)
        #expect(readAll(short) == nil)
        #expect((short.streamError as NSError?)?.code == NSURLErrorRequestBodyStreamExhausted)
        let missing = try part(try #require(InputStream(fileAtPath: "/nonexistent/file")), 4)
        #expect(readAll(missing) == nil)
        #expect(missing.streamStatus == .error)
        let long = try part(InputStream(data: bytes("abcdef")), 4)
        let data = try #require(readAll(long))
        #expect(text(data)?.contains("\r\n\r\nabcd\r\n--") == true)
    }

    @Test func `throttling is reported and limits every read, even across parts`() throws {
        let stream = try stream { form in
            for index in 0..<20 { form.appendPart(formData: Data(count: 100), name: "n\(index)") }
            form.throttleBandwidth(packetSize: 64, delay: 0.25)
        }
        let throttled = try #require(stream as InputStream as? any ThrottledBodyStream)
        #expect(throttled.packetSize == 64)
        #expect(throttled.delay == 0.25)
        stream.open()
        let start = ContinuousClock.now
        var counts: [Int] = []
        while true {
            let count = read(stream, 1000)
            if count <= 0 { break }
            counts.append(count)
        }
        #expect(counts.dropLast().allSatisfy { $0 == 64 })
        #expect(Int64(counts.reduce(0, +)) == stream.contentLength)
        // If each read were delayed, this would take at least eight seconds.
        #expect(ContinuousClock.now - start < .seconds(7), "reading never sleeps")
        #expect(try (stream.replay() as? MultipartBodyStream)?.packetSize == 64)
        #expect(MultipartFormData.suggestedPacketSize == 16_384)
        #expect(MultipartFormData.suggestedDelay == 0.2)
    }

    @Test func `a large file is sent in constant memory`() throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data(), to: "f")
        let handle = try FileHandle(forWritingTo: file)
        // The file is sparse, so that 1 GiB uses no disk space.
        try handle.truncate(atOffset: 1 << 30)
        try handle.close()
        let stream = try stream { try $0.appendPart(fileURL: file, name: "f") }
        stream.open()
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        _ = stream.read(&buffer, maxLength: buffer.count)
        let before = residentMemory()
        var total: Int64 = 1 << 20
        while true {
            let count = stream.read(&buffer, maxLength: buffer.count)
            if count <= 0 { break }
            total += Int64(count)
        }
        #expect(stream.streamError == nil)
        #expect(total == stream.contentLength)
        // The margin allows for concurrent tests. The file is more than ten times as large.
        #expect(residentMemory() - before < 96 << 20)
    }

    /// Returns the resident memory, in bytes.
    private func residentMemory() -> Int {
        let fields = ((try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? "").split(separator: " ")
        return (fields.count > 1 ? Int(fields[1]) ?? 0 : 0) * 4096
    }
}
