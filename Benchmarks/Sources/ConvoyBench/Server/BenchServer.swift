import CLimit
import ConvoyTestSupport
import Foundation

/// The environment of the cases: an nginx with one worker on free loopback ports, a server for uploads, and files.
///
/// | path | response |
/// |---|---|
/// | `/small` | 11 bytes |
/// | `/close` | 11 bytes, then the connection is closed |
/// | `/json` | 1,024 bytes of JSON |
/// | `/large` | the large file |
/// | `/expanding` | 256 MiB of zeros, compressed a thousandfold |
/// | `/slow` | 8 KiB, at 1 KiB per second |
/// | `/many/…` | the same 8 KiB without a limit, under any name |
final class BenchServer: Sendable {
    private let directory: TemporaryDirectory
    private let nginx: ChildProcess
    /// The context for the subjects.
    let context: Context

    /// The directory for the large file and for written files. It is in memory if there is enough, so that disk speed
    /// is not measured.
    let fileSystem: String

    /// The size of `/expanding` when decoded.
    static let expandedSize = 256 << 20

    /// Starts all servers, and returns when they respond.
    ///
    /// - Throws: `ProcessError` with the command that installs a missing program.
    init(isQuick: Bool) throws {
        let hasMemory = access("/dev/shm", W_OK) == 0 && Self.freeBytes("/dev/shm") > 3 << 30
        fileSystem = hasMemory ? "/dev/shm" : FileManager.default.temporaryDirectory.path
        // The environment determines the temporary directory.
        setenv("TMPDIR", fileSystem, 1)
        directory = try TemporaryDirectory(prefix: "convoy-bench")
        let certificates = try TestCertificates(in: directory.url)
        for name in ["files", "scratch"] {
            try FileManager.default.createDirectory(at: directory.file(name), withIntermediateDirectories: true)
        }
        try directory.write(Data(repeating: 0x73, count: 8 << 10), to: "files/slow")
        try directory.write(Data(), to: "files/large")
        try directory.write(Self.compressedZeros(Self.expandedSize), to: "files/expanding")
        let sink = limit_sink_server()
        let events = limit_event_server()
        guard sink > 0, events > 0 else { throw ProcessError.system("listen", errno) }
        var process: ChildProcess?
        var ports: (plain: UInt16, secure: UInt16) = (0, 0)
        var output = ""
        for _ in 0..<8 where process == nil {
            ports = try (LoopbackPort.free(), LoopbackPort.free())
            let text = Self.configuration(directory.url, ports.plain, ports.secure, certificates)
            try directory.write(Data(text.utf8), to: "nginx.conf")
            let candidate: ChildProcess
            do {
                candidate = try ChildProcess(
                    "nginx",
                    [
                        "-p", directory.url.path, "-e", directory.file("error.log").path, "-c",
                        directory.file("nginx.conf").path,
                    ],
                    directory: directory.url, log: directory.file("output.log"))
            } catch ProcessError.notInstalled {
                throw ProcessError.notInstalled(Nginx.installHint)
            }
            if Self.answers(candidate, on: ports.plain) { process = candidate } else { candidate.stop(grace: 0.2) }
            output = candidate.output
        }
        guard let process else { throw ProcessError.didNotStart("nginx: \(output)") }
        nginx = process
        guard let url = URL(string: "http://127.0.0.1:\(ports.plain)"),
            let secureURL = URL(string: "https://127.0.0.1:\(ports.secure)"),
            let sinkURL = URL(string: "http://127.0.0.1:\(sink)/upload"),
            let eventsURL = URL(string: "http://127.0.0.1:\(events)")
        else { throw ProcessError.didNotStart("nginx: bad URL") }
        context = Context(
            url: url, secureURL: secureURL, certificateAuthority: certificates.certificateAuthority,
            serverCertificate: certificates.serverCertificate, sinkURL: sinkURL, eventsURL: eventsURL,
            largeFile: directory.file("files/large"), scratch: directory.file("scratch"), isQuick: isQuick)
    }

    deinit { stop() }

    /// Stops nginx and removes all files.
    func stop() {
        nginx.stop()
        directory.remove()
    }

    /// Creates the large file once: 1 GiB without repetitions within 64 KiB.
    func makeLargeFile() throws {
        let size = LossyLink.isHere ? 16 << 20 : context.isQuick ? 32 << 20 : 1 << 30
        let path = context.largeFile.path
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        guard (attributes[.size] as? Int) != size else { return }
        let file = try FileHandle(forWritingTo: context.largeFile)
        var generator = SplitMix64(seed: 1)
        let words = (0..<(1 << 17)).map { _ in generator.next() }
        let block = words.withUnsafeBytes { Data($0) }
        for _ in 0..<(size / block.count) { try file.write(contentsOf: block) }
        try file.close()
    }

    /// Compresses zeros as gzip members of 4 MiB each.
    private static func compressedZeros(_ count: Int) throws -> Data {
        let size = 4 << 20
        let result = try ProcessRunner.run("gzip", ["-c"], input: Data(count: size))
        guard result.status == 0 else { throw BenchError("gzip: \(result.errorText)") }
        return Data(repeatElement(result.output, count: count / size).joined())
    }

    private static func freeBytes(_ path: String) -> Int {
        let attributes = try? FileManager.default.attributesOfFileSystem(forPath: path)
        return (attributes?[.systemFreeSize] as? NSNumber)?.intValue ?? 0
    }

    private static func answers(_ process: ChildProcess, on port: UInt16) -> Bool {
        let deadline = DispatchTime.now() + 10
        while DispatchTime.now() < deadline, process.isRunning {
            let answer = try? RawClient(port: port, timeout: 1).exchange("GET", "/small")
            if answer?.text == "hello world" { return true }
            usleep(3000)
        }
        return false
    }

    private static func configuration(
        _ directory: URL, _ port: UInt16, _ securePort: UInt16, _ certificates: TestCertificates
    ) -> String {
        let root = directory.path
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map { "\($0)_temp_path \(root)/tmp-\($0);" }.joined(separator: " ")
        let locations = """
            root \(root)/files;
            location = /small { default_type text/plain; return 200 "hello world"; }
            location = /close { keepalive_timeout 0; default_type text/plain; return 200 "hello world"; }
            location = /json { default_type application/json; return 200 '\(JSONDocument.text)'; }
            location = /slow { limit_rate 1k; }
            location = /expanding { add_header Content-Encoding gzip; }
            location ~ ^/many/ { alias \(root)/files/slow; }
            """
        return """
            daemon off;
            master_process off;
            worker_processes 1;
            pid \(root)/nginx.pid;
            error_log \(root)/error.log warn;
            events { worker_connections 16384; }
            http {
                access_log off;
                default_type application/octet-stream;
                sendfile on;
                tcp_nodelay on;
                keepalive_timeout 600s;
                keepalive_requests 1000000000;
                http2_max_concurrent_streams 256;
                \(temporary)
                server { listen 127.0.0.1:\(port) backlog=4096; \(locations) }
                server {
                    listen 127.0.0.1:\(securePort) ssl http2 backlog=4096;
                    ssl_certificate \(certificates.serverCertificate.path);
                    ssl_certificate_key \(certificates.serverKey.path);
                    \(locations)
                }
            }

            """
    }
}
