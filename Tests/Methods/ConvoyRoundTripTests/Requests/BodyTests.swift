import ConvoyOperations
import ConvoySerialization
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Multipart bodies and bodies from streams, parsed by an independent server.
@Suite(.needsHttpbin) struct BodyTests {
    let manager: HTTPRequestOperationManager
    let directory: TemporaryDirectory
    /// Bytes that are not text, some of which look like a boundary.
    let bytes: Data = {
        var random = SplitMix64(seed: 7)
        return random.data(count: 300_000) + Data("\r\n--Boundary+0123456789ABCDEF--\r\n".utf8) + Data([0xFF, 0])
    }()
    let text = "Line one\r\nline two, é 漢字 👩🏽‍🚀\n\n"

    init() throws {
        manager = try Shared.manager()
        directory = try TemporaryDirectory()
    }

    // MARK: Multipart

    @Test func `two files and fields arrive unchanged`() async throws {
        let file = try directory.write(bytes, to: "naïve \"name\".bin")
        let operation = try manager.makeMultipartOperation(
            "post",
            parameters: [
                "user": ["name": "Ada é"], "tags": ["x", "y"], "none": ParameterValue.null, "raw": Data("r\r\n".utf8),
            ]
        ) { form in
            form.appendPart(fileData: Data(text.utf8), name: "notes", fileName: "notes.txt", mimeType: "text/plain")
            try form.appendPart(fileURL: file, name: "blob")
            form.appendPart(formData: Data("last".utf8), name: "after")
        }
        let echo = try await finish(operation)
        #expect(
            echo.form == [
                "user[name]": "Ada é", "tags[]": ["x", "y"], "none": "", "raw": "r\r\n", "after": "last",
            ])
        #expect(echo.file("notes") == Data(text.utf8))
        #expect(echo.file("blob") == bytes)
        #expect(echo.files?["blob"]?.hasPrefix("data:application/octet-stream;base64,") == true)
        #expect(echo.files?.count == 2 && echo.data == "")
        // The announced length is correct, because the server would otherwise wait for more bytes.
        #expect(echo.header("Content-Length") == operation.request.value(forHTTPHeaderField: "Content-Length"))
        #expect(echo.header("Transfer-Encoding") == nil)
    }

    @Test func `a file has the media type of its extension`() async throws {
        let file = try directory.write(bytes, to: "picture.png")
        let operation = try manager.makeMultipartOperation("post") { try $0.appendPart(fileURL: file, name: "picture") }
        let echo = try await finish(operation)
        #expect(echo.files?["picture"]?.hasPrefix("data:image/png;base64,") == true)
        #expect(echo.file("picture") == bytes)
    }

    @Test func `awkward names arrive as a browser would send them`() async throws {
        let operation = try manager.makeMultipartOperation("post") { form in
            form.appendPart(formData: Data("1".utf8), name: "漢字 é")
            form.appendPart(formData: Data("2".utf8), name: "say \"hello\"; x=y")
            form.appendPart(fileData: Data("3".utf8), name: "a\r\nb", fileName: "c\nd\".txt", mimeType: "text/plain")
        }
        let echo = try await finish(operation)
        #expect(echo.form == ["漢字 é": "1", "say \"hello\"; x=y": "2"])
        #expect(echo.file("a%0D%0Ab") == Data("3".utf8))
    }

    @Test func `parts from streams and with custom headers arrive`() async throws {
        let (bytes, text) = (bytes, text)
        let operation = try manager.makeMultipartOperation("put", method: .put) { form in
            form.appendPart(
                inputStream: InputStream(data: bytes), name: "once", fileName: "once.bin", length: Int64(bytes.count),
                mimeType: "application/octet-stream")
            form.appendPart(
                name: "again", fileName: "again.txt", length: Int64(text.utf8.count), mimeType: "text/plain"
            ) { InputStream(data: Data(text.utf8)) }
            form.appendPart(
                headers: ["Content-Disposition": "form-data; name=\"own\"", "X-Part": "yes"], body: Data("body".utf8))
        }
        let echo = try await finish(operation)
        #expect(echo.file("once") == bytes && echo.file("again") == Data(text.utf8))
        #expect(echo.form == ["own": "body"])
    }

    @Test func `a file that grew after it was added fails instead of corrupting the body`() async throws {
        let file = try directory.write(Data("short".utf8), to: "file.txt")
        let operation = try manager.makeMultipartOperation("post") { try $0.appendPart(fileURL: file, name: "file") }
        try Data("longer than before".utf8).write(to: file)
        await #expect(throws: (any Error).self) { try await manager.enqueue(operation).finished() }
        #expect((operation.error as? URLError)?.code == .requestBodyStreamExhausted)
        #expect(operation.response == nil)
    }

    @Test func `a form is sent again after a redirect`() async throws {
        let file = try directory.write(bytes, to: "file.bin")
        let operation = try manager.makeMultipartOperation(
            "redirect-to?url=/anything&status_code=307", parameters: ["a": "b"]
        ) { try $0.appendPart(fileURL: file, name: "file") }
        let echo = try await finish(operation)
        #expect(echo.url.hasSuffix("/anything") && echo.method == "POST")
        #expect(echo.form == ["a": "b"] && echo.file("file") == bytes)
    }

    // MARK: Streams

    @Test func `a stream of known length is sent with that length`() async throws {
        let file = try directory.write(bytes, to: "body.bin")
        let echo = try await upload(InputStream(url: file), length: bytes.count)
        #expect(echo.body == bytes)
        #expect(echo.header("Content-Length") == "\(bytes.count)" && echo.header("Transfer-Encoding") == nil)
    }

    @Test func `a stream of unknown length is sent in chunks`() async throws {
        let echo = try await upload(InputStream(data: bytes), length: nil)
        #expect(echo.body == bytes)
        #expect(echo.header("Content-Length") == nil && echo.header("Transfer-Encoding") == "chunked")
    }

    @Test func `an empty stream is an empty body`() async throws {
        let echo = try await upload(InputStream(data: Data()), length: nil)
        #expect(echo.body == Data())
    }

    @Test(arguments: [-1, 1])
    func `a stream whose length differs from the announced one fails`(difference: Int) async throws {
        await #expect(throws: URLError.self) {
            try await upload(InputStream(data: bytes), length: bytes.count + difference)
        }
    }

    @Test func `progress counts every byte of the body`() async throws {
        let operation = try manager.makeMultipartOperation("post") { form in
            form.appendPart(fileData: bytes, name: "file", fileName: "file.bin", mimeType: "application/octet-stream")
        }
        let queue = DispatchQueue(label: "Convoy.RoundTrips.Progress")
        operation.completionQueue = queue
        let last = LastProgress()
        operation.uploadProgressHandler = { _, total, expected in last.set(total, expected) }
        _ = try await finish(operation)
        queue.sync {}
        let length = operation.request.value(forHTTPHeaderField: "Content-Length").flatMap { Int64($0) }
        #expect(length != nil && last.total == length && last.expected == length)
    }

    private func upload(_ stream: InputStream?, length: Int?) async throws -> Echo {
        var request = URLRequest(url: try manager.url(for: "anything"))
        request.httpMethod = "POST"
        request.httpBodyStream = stream
        request.setValue("application/octet-stream", forHTTPHeaderField: "Content-Type")
        if let length { request.setValue("\(length)", forHTTPHeaderField: "Content-Length") }
        return try await finish(manager.makeOperation(request: request))
    }

    private func finish(_ operation: HTTPRequestOperation) async throws -> Echo {
        operation.responseSerializer = DecodableResponseSerializer<Echo>()
        return try await manager.enqueue(operation).value()
    }
}
