import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// What people do with wget, curl and aria2, against the servers that they do it with.
struct UsualCommandTests {
    /// A server of files.
    struct FileServer {
        let url: (String) -> URL
        let add: (Data, String) throws -> Void
        /// Holds the program.
        let owner: AnyObject
    }

    enum Kind: String, CaseIterable, Sendable {
        case nginx, apache2, lighttpd

        var isInstalled: Bool {
            switch self {
            case .nginx: Nginx.isInstalled
            case .apache2: ApacheServer.isInstalled
            case .lighttpd: Lighttpd.isInstalled
            }
        }

        func start() throws -> FileServer {
            switch self {
            case .nginx:
                let server = try Nginx()
                return FileServer(url: { server.url($0) }, add: { try server.add($0, as: $1) }, owner: server)
            case .apache2:
                let server = try ApacheServer()
                return FileServer(url: { server.url($0) }, add: { try server.add($0, as: $1) }, owner: server)
            case .lighttpd:
                let server = try Lighttpd()
                return FileServer(url: { server.url($0) }, add: { try server.add($0, as: $1) }, owner: server)
            }
        }
    }

    static let kinds: [Kind] = Kind.allCases.filter { kind in
        if !kind.isInstalled { print("not tested with \(kind.rawValue), which is not installed") }
        return kind.isInstalled
    }

    private func data(_ seed: UInt64, count: Int) -> Data {
        var generator = SplitMix64(seed: seed)
        return generator.data(count: count)
    }

    /// `wget -c -i list`: a list, of which some files are whole, one is begun, and the others are not there.
    @Test(arguments: kinds)
    func `a list goes on where it ended`(_ kind: Kind) async throws {
        let server = try kind.start(), scratch = try Scratch()
        let files = (0..<5).map { data(UInt64($0), count: 2_000_000) }
        for (index, file) in files.enumerated() { try server.add(file, "f\(index).bin") }
        try scratch.write((0..<5).map { "\(server.url("f\($0).bin"))\n" }.joined(), to: "list")
        let slow = try ToolProcess(["get", "--no-clobber", "-j", "1", "--limit-rate", "2M", "-i", "list"], in: scratch.url)
        try await waitUntil("the second file has begun") {
            ((try? scratch.data("f1.bin.convoypart"))?.count ?? 0) > 500_000 || scratch.names.contains("f1.bin")
        }
        slow.send(signal: SIGINT)
        #expect(try await slow.finished().status == -SIGINT)
        let begun = scratch.names.first { $0.hasSuffix(".convoypart") }
        let result = try await ToolProcess.run(["get", "--no-clobber", "-v", "-i", "list"], in: scratch.url)
        #expect(result.status == 0, "\(result.errors)")
        for (index, file) in files.enumerated() { #expect(try scratch.data("f\(index).bin") == file) }
        #expect(scratch.names.count == 6)
        #expect(result.output.contains("f0.bin: is there already"))
        #expect(result.errors.contains("HTTP/1.1 206") == (begun != nil))
        _ = server.owner
    }

    /// `curl --remote-name-all --parallel URL…`: many URLs at a time, each under its name.
    @Test(arguments: kinds)
    func `many URLs come at a time, each under its name`(_ kind: Kind) async throws {
        let server = try kind.start(), scratch = try Scratch()
        let files = (0..<40).map { data(UInt64(100 + $0), count: 30_000 + $0) }
        for (index, file) in files.enumerated() { try server.add(file, "n\(index).bin") }
        let urls = files.indices.map { server.url("n\($0).bin").absoluteString }
        let result = try await ToolProcess.run(["get", "--jobs", "20"] + urls, in: scratch.url)
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.output.contains("40 downloaded, "))
        for (index, file) in files.enumerated() { #expect(try scratch.data("n\(index).bin") == file) }
        #expect(scratch.names.count == 40)
        _ = server.owner
    }

    /// `aria2c -x4 -j8 -i list`: a list with names and checksums, each file over four connections.
    @Test(arguments: kinds)
    func `the files of a list come in segments, under their names, and are checked`(_ kind: Kind) async throws {
        let server = try kind.start(), scratch = try Scratch()
        let files = (0..<3).map { data(UInt64(200 + $0), count: 6_000_000) }
        var list = ""
        for (index, file) in files.enumerated() {
            try server.add(file, "s\(index).bin")
            let digest = try await ProcessRunner.digest(of: file, in: scratch)
            list +=
                "\(server.url("s\(index).bin"))\n  out=part \(index).bin\n  dir=d\(index)\n  checksum=sha-256=\(digest)\n"
        }
        try scratch.write(list, to: "list")
        let result = try await ToolProcess.run(["get", "--segments", "4", "-j", "8", "-v", "-i", "list"], in: scratch.url)
        #expect(result.status == 0, "\(result.errors.suffix(2000))")
        for (index, file) in files.enumerated() { #expect(try scratch.data("d\(index)/part \(index).bin") == file) }
        #expect(result.errors.components(separatedBy: "HTTP/1.1 206").count > 3)
        _ = server.owner
    }
}

extension ProcessRunner {
    /// The SHA-256 of bytes, by the program `sha256sum`.
    fileprivate static func digest(of data: Data, in scratch: Scratch) async throws -> String {
        let file = scratch.url.appendingPathComponent(".run-digest")
        try data.write(to: file)
        let output = try ProcessRunner.run("sha256sum", [file.path]).text
        return String(output.prefix(64))
    }
}
