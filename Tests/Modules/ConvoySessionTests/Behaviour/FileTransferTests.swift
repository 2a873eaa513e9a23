import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Downloads to files, and uploads from sources other than memory, with both managers.
@Suite struct FileTransferTests {
    let server: TestServer
    let directory: TemporaryDirectory

    struct Receipt: Codable, Sendable, Equatable { var ok: Bool }

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
        for method in ["POST", "PUT"] { server.route(method, "/up", .json(text: #"{"ok": true}"#)) }
    }

    private func api(_ kind: ManagerKind) -> any HTTPManager { kind.make(server.url) }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: directory.url.path).sorted() }
    }

    @Test(arguments: ManagerKind.allCases)
    func `a download appears at its destination when complete, and replaces a file only if permitted`(
        kind: ManagerKind
    ) async throws {
        let api = api(kind)
        server.route("/file", .pattern(count: 300_000))
        let file = directory.url.appendingPathComponent("file.bin")
        try Data("old".utf8).write(to: file)
        let refused = await #expect(throws: DownloadError.self) { try await api.download("file", to: file) }
        #expect(refused?.reason == .fileExists(file) && refused?.url == server.url("/file"))
        #expect(refused.map { "\($0)" }?.hasSuffix("already exists. (\(server.url("/file")))") == true)
        #expect(server.requests.isEmpty)
        #expect(try Data(contentsOf: file) == Data("old".utf8))
        let operation = try await api.download("file", to: file, existing: .replace)
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: 300_000))
        #expect(operation.statusCode == 200 && operation.responseData == nil)
        #expect(server.requests.last?.headers["Accept-Encoding"] == "identity")
        #expect(try names == ["file.bin"])
    }

    @Test(arguments: ManagerKind.allCases)
    func `a failed download keeps the old file and can be resumed`(kind: ManagerKind) async throws {
        let api = api(kind)
        let whole = PatternBytes.data(count: 300_000)
        server.serve(whole, at: "/short", etag: "\"1\"") { $1.truncated(afterBytes: 100_000) }
        server.route("/missing", .text("no such file", status: 404))
        server.route("/small", .text("small"))
        let file = directory.url.appendingPathComponent("file.bin")
        try Data("old".utf8).write(to: file)
        await #expect(throws: URLError.self) { try await api.download("short", to: file, existing: .replace) }
        await #expect(throws: NSError.self) {
            try await api.download("missing", to: directory.url.appendingPathComponent("missing"))
        }
        #expect(try Data(contentsOf: file) == Data("old".utf8))
        #expect(try names == ["file.bin", "file.bin.convoyjournal", "file.bin.convoypart"])
        server.serve(whole, at: "/short", etag: "\"1\"")
        try await api.download("short", to: file, existing: .replace)
        #expect(server.requests.last?.headers["Range"] == "bytes=100000-")
        #expect(try Data(contentsOf: file) == whole)
        #expect(try names == ["file.bin"])
        let nowhere = directory.url.appendingPathComponent("no/such/directory")
        let error = await #expect(throws: URLError.self) { try await api.download("small", to: nowhere) }
        #expect(error?.code == .cannotWriteToFile && error?.localizedDescription.contains(nowhere.path) == true)
        let unusable = await #expect(throws: DownloadError.self) { try await api.download("small", to: directory.url) }
        #expect(unusable?.reason == .unusableDestination(directory.url))
        await #expect(throws: URLError.self) {
            try await api.download("small", to: try #require(URL(string: "http://x/y")))
        }
    }

    @Test(arguments: ManagerKind.allCases)
    func `files, data and streams are uploaded with their length`(kind: ManagerKind) async throws {
        let api = api(kind)
        let body = PatternBytes.data(count: 200_000)
        let file = directory.url.appendingPathComponent("photo.png")
        try body.write(to: file)
        let receipt: Receipt = try await api.upload("up", from: .file(file))
        #expect(receipt == Receipt(ok: true))
        try await api.upload("up", method: .put, from: .data(body), parameters: ["a": 1], headers: ["Content-Type": "x/y"])
        try await api.upload("up", from: .stream(InputStream(data: body), length: 200_000))
        let requests = server.requests
        #expect(requests.count == 3 && requests.allSatisfy { $0.body == body })
        #expect(requests.allSatisfy { $0.headers["Content-Length"] == "200000" })
        #expect(requests.map { $0.headers["Content-Type"] } == ["image/png", "x/y", "application/octet-stream"])
        #expect(requests.map(\.method) == ["POST", "PUT", "POST"] && requests[1].query == "a=1")
    }

    @Test(arguments: ManagerKind.allCases)
    func `a file is sent again after a redirect, but a stream is not`(kind: ManagerKind) async throws {
        let api = api(kind)
        server.redirect("/moved", to: "/up", status: 307)
        let file = directory.url.appendingPathComponent("body")
        try Data("hello".utf8).write(to: file)
        try await api.upload("moved", from: .file(file))
        #expect(server.requests("/up").last?.text == "hello")
        await #expect(throws: (any Error).self) {
            try await api.upload("moved", from: .stream(InputStream(data: Data("hello".utf8)), length: 5))
        }
        #expect(server.requests("/up").count == 1)
    }

    @Test(arguments: ManagerKind.allCases)
    func `a short stream is an error, and a long one is cut at its announced length`(
        kind: ManagerKind
    ) async throws {
        let api = api(kind)
        await #expect(throws: (any Error).self) {
            try await api.upload("up", from: .stream(InputStream(data: Data("hello".utf8)), length: 7))
        }
        try await api.upload("up", from: .stream(InputStream(data: Data("hello".utf8)), length: 3))
        #expect(server.requests.map(\.text) == ["hel"])
    }

    @Test(arguments: ManagerKind.allCases)
    func `an invalid upload is an error before anything is sent`(kind: ManagerKind) async throws {
        let api = api(kind)
        await #expect(throws: NSError.self) {
            try await api.upload("up", from: .file(directory.url.appendingPathComponent("missing")))
        }
        await #expect(throws: NSError.self) {
            try await api.upload("up", from: .stream(InputStream(data: Data()), length: -1))
        }
        #expect(server.requests.isEmpty)
    }

    @Test(arguments: ManagerKind.allCases)
    func `a multipart form can be awaited like any other call`(kind: ManagerKind) async throws {
        let api = api(kind)
        let receipt: Receipt = try await api.post("up", parameters: ["title": "Dawn"]) { form in
            form.appendPart(formData: Data("1".utf8), name: "one")
        }
        #expect(receipt == Receipt(ok: true))
        try await api.post("up") { $0.appendPart(formData: Data("2".utf8), name: "two") }
        #expect(server.requests.count == 2)
        #expect(server.requests[0].text.contains("Dawn") && server.requests[1].text.contains("two"))
    }
}
