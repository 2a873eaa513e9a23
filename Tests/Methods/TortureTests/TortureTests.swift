import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Makes each call into libcurl, OpenSSL, SQLite, zlib and the system, and each allocation of libcurl and SQLite, fail:
/// once, or from one call on. The program must not crash or hang, every operation must end once, and no body or file
/// may be wrong.
///
/// By default, eight random failures per scene are tried. `CONVOY_TORTURE` sets the number of failures per call, each
/// once and permanently (`Tests/long torture`). `CONVOY_TORTURE_CALLS` and `CONVOY_TORTURE_SCENES` select calls and
/// scenes. `CONVOY_TORTURE_PART`, such as 2/5, selects every fifth failure, so that five processes can share the work.
@Suite(
    .enabled(if: Torture.isPossible, "torture: cc is not installed, or this is not 64-bit Linux: apt-get install gcc"),
    .enabled(if: !Torture.isSanitized, "torture: a sanitizer must be the first library of a process")
)
struct TortureTests {
    @Test(arguments: Torture.scenes) func `every operation ends once with a correct result if any system call fails`(
        _ scene: String
    ) throws {
        let torture = try Torture(scene)
        let reached = try torture.reachedCalls()
        // Without a failure, the scene succeeds and makes the calls under test.
        try #require(reached.contains { $0.count > 0 })
        let environment = ProcessInfo.processInfo.environment
        let depth = environment["CONVOY_TORTURE"].flatMap { Int($0) }
        let only = environment["CONVOY_TORTURE_CALLS"].map { Set($0.split(separator: ",").map(String.init)) }
        var random = SplitMix64.printingSeed()
        var cases: [(call: Torture.Call, number: Int, always: Bool)] = []
        for call in reached where call.count > 0 && only?.contains(call.name) ?? true {
            let mended = Torture.mended[scene]?[call.name] ?? 0
            let isExhausted = depth.map { $0 >= call.count } ?? false
            var numbers = Set(1...(isExhausted ? call.count : min(max(1, mended), call.count)))
            while numbers.count < min(depth ?? 2, call.count) {
                numbers.insert(Int.random(in: 1...call.count, using: &random))
            }
            for number in numbers.sorted() {
                cases.append((call, number, false))
                // A signal does not interrupt a call permanently.
                if depth != nil, !call.isInterrupted { cases.append((call, number, true)) }
            }
        }
        if depth == nil, only == nil {
            let mended = cases.filter { $0.number <= Torture.mended[scene]?[$0.call.name] ?? 0 }
            cases = mended + cases.shuffled(using: &random).prefix(8)
        }
        if let part = environment["CONVOY_TORTURE_PART"]?.wholeMatch(of: /([0-9]+)\/([0-9]+)/),
            let number = Int(part.1), let parts = Int(part.2), parts > 0
        {
            cases = cases.indices.filter { $0 % parts == number % parts }.map { cases[$0] }
        }
        let calls = reached.reduce(0) { $0 + $1.count }
        if depth != nil { print("torture: \(scene): \(calls) calls, \(cases.count) runs") }
        var hits = 0
        for (run, (call, number, always)) in cases.enumerated() {
            if run > 0, run % 1000 == 0 { print("torture: \(scene): run \(run)") }
            let outcome = try torture.run(call, number: number, always: always)
            if outcome.hasFailed { hits += 1 }
            // If libcurl has no memory to record the transfers waiting for a socket, it divides by zero when that
            // socket next changes.
            if call.name == "libcurl's memory", outcome.problem?.hasPrefix("status 136") ?? false { continue }
            #expect(
                outcome.problem == nil,
                "\(scene): \(call.name) \(number)\(always ? " and later" : ""): \(outcome.problem ?? "")")
        }
        let runs = cases.count
        print(
            "torture: \(scene): \(runs) runs, \(hits) with a failure, \(reached.filter { $0.count > 0 }.count) kinds of calls"
        )
        // The selected calls may not occur in the scene.
        if runs > 0 { #expect(hits * 2 > runs) }
    }
}

/// Runs the program of a scene with a library that makes calls fail.
final class Torture {
    struct Call {
        let index: Int
        let name: String
        /// The number of calls in a run without a failure.
        let count: Int
        /// Whether the failure is an interruption by a signal.
        let isInterrupted: Bool
    }

    struct Outcome {
        /// The problem, if any.
        let problem: String?
        /// Whether a call has failed.
        let hasFailed: Bool
    }

    struct Failure: Error, CustomStringConvertible { let description: String }

    /// Calls whose failure once caused a crash, a hang or a lost entry, and how many of each are tried in every run.
    static let mended: [String: [String: Int]] = [
        "downloads": ["curl_easy_pause": 1, "curl_multi_setopt": 1, "curl_multi_socket_action": 1],
        "queue": ["sqlite3_column_text": 1, "sqlite3_column_blob": 1],
        // This number covers all options of the first request with a body.
        "uploads": ["curl_easy_setopt": 60],
        "postgres": ["PQsocket": 1],
    ]
    static let scenes: [String] = {
        var all = ["requests", "secure", "downloads", "uploads", "stores", "queue", "shared", "tool"]
        #if Postgres
        if PostgresServer.isInstalled {
            all.append("postgres")
        } else {
            print("torture: no scene on PostgreSQL: not installed: \(PostgresServer.installHint)")
        }
        #else
        print("torture: no scene on PostgreSQL: it needs --traits Postgres")
        #endif
        guard let only = ProcessInfo.processInfo.environment["CONVOY_TORTURE_SCENES"] else { return all }
        return all.filter(only.split(separator: ",").map(String.init).contains)
    }()
    static let isPossible =
        MemoryLayout<Int>.size == 8 && (try? ProcessRunner.run("sh", ["-c", "command -v cc"]))?.status == 0

    /// Whether this is a build with the address or thread sanitizer.
    static let isSanitized = dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
    static let findsLeaks = dlsym(nil, "__lsan_do_recoverable_leak_check") != nil

    /// The path of an executable beside that of the tests.
    static let program = path(of: "TortureProgram")
    private static let tool = path(of: "convoy")

    private static func path(of program: String) -> String {
        let tests = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent(program).path
    }
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    private static let calls: [(name: String, isInterrupted: Bool)] = {
        let text = (try? String(contentsOf: folder.appendingPathComponent("calls.h"), encoding: .utf8)) ?? ""
        let calls = text.split(separator: "\n").compactMap { $0.firstMatch(of: /^CALL\((\w+),.*, (\w+)\)/) }
        return calls.map { (String($0.1), $0.2 == "EINTR") } + [("libcurl's memory", false), ("SQLite's memory", false)]
    }()

    private let scene: String
    private let directory: TemporaryDirectory
    private let library: URL
    private let counters: URL
    private let authority: URL
    private let server: TestServer
    private let secureServer: TestServer
    private var round = 0
    private static let pattern = Data((0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) })

    init(_ scene: String) throws {
        self.scene = scene
        directory = try TemporaryDirectory(prefix: "convoy-torture")
        library = directory.file("failing_calls.so")
        counters = directory.file("counters")
        authority = directory.file("authority.pem")
        let compiled = try ProcessRunner.run(
            "cc",
            [
                "-shared", "-fPIC", "-O1", "-w", "-fno-builtin", "-o", library.path,
                Self.folder.appendingPathComponent("failing_calls.c").path, "-ldl",
            ])
        guard compiled.status == 0 else { throw Failure(description: compiled.errorText) }
        let root = try TestCertificate.root()
        try Data(root.pem.utf8).write(to: authority)
        server = try TestServer()
        secureServer = try TestServer(tls: TestServer.TLS(try root.issue(.server("localhost", "127.0.0.1"))))
        let pattern = Self.pattern
        let gzip = try ProcessRunner.run("gzip", ["-c"], input: pattern).output
        for server in [server, secureServer] {
            server.serve(pattern, at: "/pattern", etag: "\"1\"")
        }
        server.route("GET", "/json", .json("{\"a\": 1}"))
        server.route("POST", "/echo") { .text("\($0.body.count)") }
        server.redirect("/moved", to: "/json")
        server.route("GET", "/broken", .text("x").resetBeforeHead())
        server.route("GET", "/busy", .status(503))
        server.route(
            "GET", "/gzip", TestServer.Response(status: 200, headers: ["Content-Encoding": "gzip"], body: .data(gzip)))
        serveUploads()
        for number in 0..<3 {
            server.route("GET", "/cached/\(number)") { _ in
                TestServer.Response(
                    status: 200,
                    headers: [
                        "Cache-Control": "max-age=600", "Set-Cookie": "c\(number)=1; Max-Age=600", "ETag": "\"\(number)\"",
                    ],
                    body: .data(pattern))
            }
        }
    }

    /// Serves a single tus upload.
    private func serveUploads() {
        let stored = Locked((data: Data(), length: 0))
        @Sendable func offset() -> TestServer.Response {
            let (data, length) = stored.withLock { $0 }
            return .status(204).header("Tus-Resumable", "1.0.0").header("Upload-Offset", "\(data.count)")
                .header("Upload-Length", "\(length)")
        }
        server.route("POST", "/uploads") { request in
            stored.withLock { $0 = (Data(), request.headers["Upload-Length"].flatMap { Int($0) } ?? 0) }
            return .status(201).header("Tus-Resumable", "1.0.0").header("Location", "/uploads/1")
        }
        server.route("HEAD", "/uploads/1") { _ in offset() }
        server.route("PATCH", "/uploads/1") { request in
            let isNext = stored.withLock { stored in
                guard request.headers["Upload-Offset"] == "\(stored.data.count)" else { return false }
                stored.data.append(request.body)
                return true
            }
            return isNext ? offset() : .status(409)
        }
        server.route("GET", "/uploads/1") { _ in TestServer.Response(status: 200, body: .data(stored.withLock { $0.data })) }
    }

    /// Returns the number of times the scene makes each call.
    func reachedCalls() throws -> [Call] {
        let outcome = try run(nil, number: 0, always: false)
        if let problem = outcome.problem { throw Failure(description: "without a failure: \(problem)") }
        let counts = try counts()
        return Self.calls.enumerated().map { index, call in
            Call(index: index, name: call.name, count: counts[index], isInterrupted: call.isInterrupted)
        }
    }

    private func counts() throws -> [Int] {
        let data = try Data(contentsOf: counters)
        return data.withUnsafeBytes { bytes in
            (0..<bytes.count / 4).map { Int(bytes.loadUnaligned(fromByteOffset: $0 * 4, as: UInt32.self)) }
        }
    }

    /// Runs the scene without the library of failing calls. Returns the problem, if any.
    func play(environment: [String: String]) throws -> String? {
        let folder = directory.file("played")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return try play(in: folder, environment, timeout: 120, shown: 8_000)
    }

    func run(_ call: Call?, number: Int, always: Bool) throws -> Outcome {
        round += 1
        let folder = directory.file("round-\(round)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try Data(count: (Self.calls.count + 1) * 4).write(to: counters)
        var environment = [
            "LD_PRELOAD": library.path, "TORTURE_COUNTS": counters.path, "SWIFT_BACKTRACE": "enable=no",
        ]
        var isPrompt = false
        if let call {
            environment["TORTURE_CALL"] = "\(call.index)"
            environment["TORTURE_NUMBER"] = "\(number)"
            if always { environment["TORTURE_ALWAYS"] = "1" }
            isPrompt = Self.mended[scene]?[call.name] != nil && number == 1 && !always
            if isPrompt { environment["TORTURE_PROMPT"] = "1" }
        }
        // A queue waits half a minute for an unavailable database, unless the first failure reports it.
        let timeout = scene != "postgres" ? 40 : isPrompt ? 20 : 100
        let problem = try play(in: folder, environment, timeout: TimeInterval(timeout), shown: 600)
        return Outcome(problem: problem, hasFailed: try (counts().last ?? 0) > 0)
    }

    private func play(
        in folder: URL, _ environment: [String: String], timeout: TimeInterval, shown: Int
    ) throws -> String? {
        var environment = environment
        environment["HOME"] = folder.path
        if scene == "postgres" { environment["TORTURE_DATABASE"] = PostgresServer.shared?.address }
        let isTool = scene == "tool"
        let url = server.url("/pattern").absoluteString
        let result = try ProcessRunner.run(
            isTool ? Self.tool : Self.program,
            isTool
                ? ["get", "--no-config", "--retry", "1", "--max-time", "5", "-o", folder.path + "/file", url]
                : [scene, server.url.absoluteString, secureServer.url.absoluteString, authority.path, folder.path],
            environment: environment, timeout: timeout)
        guard isTool ? !hasRightFile(in: folder, result.status) : result.status != 0 else { return nil }
        return "status \(result.status): \(result.text.suffix(shown))\(result.errorText.suffix(shown))"
    }

    /// Returns whether the tool downloaded the file, or reported a failure without leaving a wrong file.
    private func hasRightFile(in folder: URL, _ status: Int32) -> Bool {
        let bytes = try? Data(contentsOf: folder.appendingPathComponent("file"))
        return status == 0 ? bytes == Self.pattern : (1...8).contains(status) && bytes.map { $0 == Self.pattern } ?? true
    }
}
