import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// `convoy put`, with a third-party tus server and without tus.
struct PutTests {
    @Test(.enabled(if: TusPyServer.isInstalled, "needs \(TusPyServer.installHint)"))
    func `files are uploaded, and interrupted uploads resume`() async throws {
        let server = try TusPyServer()
        let directory = try TemporaryDirectory(prefix: "convoy-put")
        var random = SplitMix64(seed: 1)
        let bytes = random.data(count: 2_500_000)
        try bytes.write(to: directory.file("film.bin"))
        try Data("short".utf8).write(to: directory.file("note.txt"))
        let bench = directory.url.path
        let both = try await ToolProcess.run(
            ["put", "\(bench)/film.bin", "\(bench)/note.txt", server.url.absoluteString], in: directory.url)
        #expect(both.status == 0, "\(both.errors)")
        #expect(both.output.contains("2 uploaded") || both.errors.contains("2 uploaded"))
        let parts = try await ToolProcess.run(
            ["put", "--json", "--tus", "--parallel", "2", "\(bench)/film.bin", server.url.absoluteString], in: directory.url)
        #expect(parts.status == 0, "\(parts.errors)")
        let line = try #require(
            JSONSerialization.jsonObject(with: Data(parts.output.utf8)) as? [String: Any])
        #expect(line["bytes"] as? Int == 2_500_000 && line["error"] is NSNull)
        let place = try #require((line["upload"] as? String).flatMap { URL(string: $0) })
        #expect(server.stored(place) == bytes)
        #expect(try FileManager.default.contentsOfDirectory(atPath: bench).sorted() == ["film.bin", "note.txt"])
    }

    @Test func `a failed upload ends with the exit status for its cause`() async throws {
        let directory = try TemporaryDirectory(prefix: "convoy-put")
        let port = try LoopbackPort.free()
        try Data("short".utf8).write(to: directory.file("note.txt"))
        let bench = directory.url.path
        func status(_ arguments: [String]) async throws -> Int32 {
            try await ToolProcess.run(["put"] + arguments, in: directory.url).status
        }
        #expect(try await status([]) == 2)
        #expect(try await status(["\(bench)/note.txt"]) == 2)
        #expect(try await status(["--chunk", "x", "\(bench)/note.txt", "http://127.0.0.1:\(port)/"]) == 2)
        #expect(try await status(["--tus", "--plain", "\(bench)/note.txt", "http://127.0.0.1:\(port)/"]) == 2)
        #expect(try await status(["\(bench)/none", "http://127.0.0.1:\(port)/"]) == 8)
        #expect(try await status(["\(bench)/note.txt", "http://127.0.0.1:\(port)/"]) == 4)
        #expect(try FileManager.default.contentsOfDirectory(atPath: bench) == ["note.txt"])
    }

    /// A server on which an upload of `note.txt` was interrupted, and the directory of the file.
    private struct Interrupted {
        let bench: Workbench
        init() async throws {
            bench = try Workbench()
            try bench.scratch.write("the first text", to: "note.txt")
            bench.server.route("POST", "/files", .status(201, headers: ["Tus-Resumable": "1.0.0", "Location": "/files/1"]))
            bench.server.route("PATCH", "/files/1", .status(400, headers: ["Tus-Resumable": "1.0.0"]))
            #expect(try await put().status == 7)
            bench.server.route("POST", "/files", .status(201, headers: ["Tus-Resumable": "1.0.0", "Location": "/files/2"]))
            bench.server.route("PATCH", "/files/2") { request in
                .status(204, headers: ["Tus-Resumable": "1.0.0", "Upload-Offset": "\(request.body.count)"])
            }
        }

        func put(_ options: String...) async throws -> ToolProcess.Result {
            try await ToolProcess.run(
                ["put", "--tus"] + options + ["note.txt", bench.url("/files")], in: bench.scratch.url)
        }
    }

    @Test func `the upload of a changed file starts over unless it must not`() async throws {
        let ground = try await Interrupted()
        try ground.bench.scratch.write("another text, longer than the first", to: "note.txt")
        let second = try await ground.put()
        #expect(second.status == 0, "\(second.errors)")
        #expect(ground.bench.server.requests("PATCH", "/files/2").map(\.body.count) == [35])
        #expect(try FileManager.default.contentsOfDirectory(atPath: ground.bench.scratch.url.path) == ["note.txt"])
    }

    @Test func `an unsupported extension is not reported as a connection failure`() async throws {
        let bench = try Workbench()
        try bench.scratch.write("text", to: "note.txt")
        bench.server.route("OPTIONS", "/files", .status(204, headers: ["Tus-Version": "1.0.0", "Tus-Resumable": "1.0.0"]))
        let result = try await ToolProcess.run(
            ["put", "--tus", "--checksum", "sha-256", "--json", "note.txt", bench.url("/files")], in: bench.scratch.url)
        #expect(result.status == 1, "\(result.errors)")
        #expect(try result.objects().first?["errorCode"] as? String == "other")
    }
}
