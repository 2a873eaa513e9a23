import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import XCTest

/// Uploads a form of 2 GiB from a disk. Uses XCTest, which runs tests serially, because resident memory belongs to the
/// process.
final class LargeUploadTests: XCTestCase {
    func testAFormOfTwoGibibytesIsSentInConstantMemory() async throws {
        try XCTSkipUnless(Nginx.isInstalled, "needs \(Nginx.installHint)")
        let nginx = try Nginx()
        defer { nginx.stop() }
        let directory = try TemporaryDirectory()
        let size = 2 << 30
        let file = try sparseFile(of: size, in: directory)
        let manager = HTTPRequestOperationManager(baseURL: nginx.url)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.completionQueue = DispatchQueue(label: "Convoy.RoundTrips.Large")
        // Warm up, so that threads, buffers and other one-time allocations exist.
        let small = try manager.makeMultipartOperation("upload") { form in
            form.appendPart(fileData: Data(count: 1_000), name: "file", fileName: "file", mimeType: "text/plain")
        }
        try await manager.enqueue(small).finished()

        let operation = try manager.makeMultipartOperation("upload", parameters: ["name": "large"]) { form in
            try form.appendPart(fileURL: file, name: "file")
            form.appendPart(formData: Data("end".utf8), name: "after")
        }
        let last = LastProgress()
        operation.uploadProgressHandler = { _, total, expected in last.set(total, expected) }
        try XCTSkipUnless(ProcessMeters.resetPeak(), "the kernel cannot reset the peak of resident memory")
        let before = ProcessMeters.residentKilobytes
        let start = DispatchTime.now()
        try await manager.enqueue(operation).finished()
        let seconds = secondsSince(start)
        let grown = ProcessMeters.peakResidentKilobytes - before
        print("2 GiB in \(String(format: "%.1f", seconds)) s, with \(grown) kB of growth of resident memory")

        if !ProcessMeters.holdsOnToFreedMemory { XCTAssertLessThan(grown, 8 << 10) }
        XCTAssertEqual(operation.statusCode, 204)
        let announced = try XCTUnwrap(operation.request.value(forHTTPHeaderField: "Content-Length").flatMap { Int($0) })
        XCTAssertGreaterThan(announced, size)
        XCTAssertLessThan(announced, size + 1_000)
        // The response contains the length that nginx parsed and the number of bytes that it counted, including the
        // head.
        let response = try XCTUnwrap(operation.response)
        XCTAssertEqual(response.value(forHTTPHeaderField: "X-Content-Length"), "\(announced)")
        let counted = try XCTUnwrap(response.value(forHTTPHeaderField: "X-Request-Length").flatMap { Int($0) })
        XCTAssertTrue((announced + 1..<announced + 2_000).contains(counted), "\(counted) of \(announced)")
        await withCheckedContinuation { continuation in manager.completionQueue?.async { continuation.resume() } }
        XCTAssertEqual(last.total, Int64(announced))
        XCTAssertEqual(last.expected, Int64(announced))
    }

    func testARedirectSendsALargeFormAgainByteForByte() async throws {
        let server = try TestServer()
        defer { server.stop() }
        server.route("POST", "/here", options: .discardsBody, .redirect(to: "/there", status: 307))
        server.route("POST", "/there", options: .discardsBody, .json(text: "{}"))
        let directory = try TemporaryDirectory()
        let file = try directory.write(PatternBytes.data(count: 16 << 20), to: "file.bin")
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "Convoy.RoundTrips.Large")
        let operation = try manager.makeMultipartOperation("here", parameters: ["name": "large"]) { form in
            try form.appendPart(fileURL: file, name: "file")
        }
        let stream = try XCTUnwrap(operation.request.httpBodyStream as? MultipartBodyStream)
        let expected = try checksum(of: stream.replay())
        try await manager.enqueue(operation).finished()
        XCTAssertEqual(server.requests.map(\.path), ["/here", "/there"])
        for request in server.requests {
            XCTAssertEqual(request.bodyLength, Int(stream.contentLength))
            XCTAssertEqual(request.headers["Content-Length"], "\(stream.contentLength)")
            XCTAssertEqual(request.bodyChecksum, expected)
        }
    }

    /// Returns a sparse file of the given length.
    private func sparseFile(of size: Int, in directory: TemporaryDirectory) throws -> URL {
        let url = try directory.write(Data(), to: "large.bin")
        let handle = try FileHandle(forWritingTo: url)
        try handle.truncate(atOffset: UInt64(size))
        try handle.close()
        return url
    }

    private func checksum(of stream: InputStream) throws -> BodyChecksum {
        var checksum = BodyChecksum()
        stream.open()
        defer { stream.close() }
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = stream.read(&buffer, maxLength: buffer.count)
            guard count > 0 else { break }
            buffer.withUnsafeBytes { checksum.update(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        }
        XCTAssertEqual(stream.streamStatus, .atEnd)
        return checksum
    }
}
