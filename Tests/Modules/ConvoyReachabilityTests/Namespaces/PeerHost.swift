import ConvoyTestSupport
import Foundation
import XCTest

/// Another host: a network namespace with nginx, at the other end of a cable or behind a packet relay.
final class PeerHost {
    static let address = "192.0.2.1"
    /// The bytes that the host serves: at 400 KB per second and connection, or without a limit under `/fast/`.
    let bytes: Data
    private let directory: TemporaryDirectory
    private let nginx: ChildProcess
    private var relay: ChildProcess?

    static let lack: String? = {
        if !Nginx.isInstalled { return Nginx.installHint }
        return Spawned.areThere(["nsenter", "unshare", "ip"]) ? nil : "nsenter, unshare and ip"
    }()

    private enum Spawned {
        static func areThere(_ programs: [String]) -> Bool {
            programs.allSatisfy { (try? ProcessRunner.run($0, ["--version"])) != nil }
        }
    }

    /// Starts nginx in a new namespace that is not connected to anything.
    init(size: Int) throws {
        var random = SplitMix64(seed: 20_260_301)
        bytes = random.data(count: size)
        directory = try TemporaryDirectory(prefix: "convoy-peer")
        try directory.write(bytes, to: "files/file")
        let root = directory.url.path
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map { "\($0)_temp_path \(root)/tmp-\($0);" }.joined(separator: " ")
        let configuration = """
            daemon off; master_process off; pid \(root)/nginx.pid; error_log \(root)/error.log warn;
            events {}
            http {
                log_format short '$status $body_bytes_sent $http_range';
                access_log \(root)/access.log short;
                \(temporary)
                keepalive_timeout 600s;
                server {
                    listen 0.0.0.0:80;
                    root \(root)/files;
                    location / { limit_rate 400k; }
                    location /fast/ { alias \(root)/files/; }
                    location /hello { return 200 "hello"; }
                }
            }

            """
        try directory.write(Data(configuration.utf8), to: "nginx.conf")
        nginx = try ChildProcess(
            "unshare", ["--net", "nginx", "-p", root, "-e", "\(root)/error.log", "-c", "\(root)/nginx.conf"],
            directory: directory.url, log: directory.file("output.log"))
        try eventually("nginx, which says \(nginx.output)") { FileManager.default.fileExists(atPath: "\(root)/nginx.pid") }
        try run("ip", "link", "set", "lo", "up")
    }

    /// Runs a program in the host's namespace.
    func run(_ command: String..., file: StaticString = #filePath, line: UInt = #line) throws {
        let result = try ProcessRunner.run("nsenter", ["--net=/proc/\(nginx.id)/ns/net"] + command)
        XCTAssertEqual(result.status, 0, "\(command): \(result.errorText)", file: file, line: line)
    }

    /// Moves the other end of the cable to the host, and assigns addresses to both ends.
    func connect(_ test: NetworkTestCase) throws {
        try test.ip("link set v1 netns \(nginx.id)", "addr add 192.0.2.2/24 dev v0", "link set v0 up")
        try run("ip", "addr", "add", "\(Self.address)/24", "dev", "v1")
        try run("ip", "link", "set", "v1", "up")
    }

    /// Connects the two namespaces through a relay that delays packets in each direction, drops some, and reorders
    /// some.
    func connect(_ test: NetworkTestCase, delay: Double, loss: Double, reordering: Double, seed: UInt64) throws {
        let script = try directory.write(Data(PacketRelay.script.utf8), to: "relay.py")
        let relay = try ChildProcess(
            "python3", [script.path, "/proc/\(nginx.id)/ns/net", "\(delay)", "\(loss)", "\(reordering)", "\(seed)"],
            directory: directory.url, log: directory.file("relay.log"))
        self.relay = relay
        try eventually("a relay, which says \(relay.output)") { relay.output.contains("READY") }
        try test.ip("addr add 192.0.2.2/24 dev r0", "link set r0 up")
        try run("ip", "addr", "add", "\(Self.address)/24", "dev", "r0")
        try run("ip", "link", "set", "r0", "up")
    }

    /// The relay's report about the packets.
    var relayOutput: String {
        relay?.stop(grace: 2)
        return relay?.output ?? ""
    }

    /// The completed requests: the status, the size of the body, and the range.
    var requests: [(status: String, count: Int, range: String)] {
        let text = (try? String(contentsOf: directory.file("access.log"), encoding: .utf8)) ?? ""
        return text.split(separator: "\n").map { line in
            let words = line.split(separator: " ").map(String.init)
            return (words[0], Int(words[1]) ?? 0, words[2])
        }
    }

    func stop() {
        relay?.stop(grace: 0)
        nginx.stop(grace: 0)
        directory.remove()
    }
}

/// A relay for IP packets between two network namespaces, for kernels without `netem`. It is written in Python and uses
/// a TUN device in each namespace.
enum PacketRelay {
    static var lack: String? {
        guard FileManager.default.fileExists(atPath: "/dev/net/tun") else { return "/dev/net/tun" }
        return (try? ProcessRunner.run("python3", ["-c", "import fcntl, ctypes"]))?.status == 0 ? nil : "python3"
    }

    /// The source of the relay. Its arguments are the other namespace, the delay in seconds, the fraction of packets
    /// that are dropped, the fraction that are delayed twice as long, and the seed. After SIGTERM, it prints its
    /// statistics.
    static let script = #"""
        import ctypes, fcntl, heapq, os, random, select, signal, struct, sys, time

        other, delay, loss, reordering = sys.argv[1], *map(float, sys.argv[2:5])
        chance = random.Random(int(sys.argv[5]))
        TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 1, 0x1000, 0x40000000


        def device():
            descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", b"r0", IFF_TUN | IFF_NO_PI))
            return descriptor


        ends = [device()]
        namespace = os.open(other, os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
            sys.exit(os.strerror(ctypes.get_errno()))
        ends.append(device())
        counts = {"passed": 0, "lost": 0, "late": 0}


        def stop(*_):
            print(" ".join(f"{name} {count}" for name, count in counts.items()), flush=True)
            os._exit(0)


        signal.signal(signal.SIGTERM, stop)
        print("READY", flush=True)
        waiting, number = [], 0
        while True:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, end, packet = heapq.heappop(waiting)
                try:
                    os.write(ends[end], packet)
                except OSError:
                    pass
            ready = select.select(ends, [], [], max(0, waiting[0][0] - time.monotonic()) if waiting else None)[0]
            for end in (0, 1):
                if ends[end] not in ready:
                    continue
                try:
                    packet = os.read(ends[end], 65536)
                except OSError:
                    continue
                if chance.random() < loss:
                    counts["lost"] += 1
                    continue
                isLate = chance.random() < reordering
                counts["late" if isLate else "passed"] += 1
                number += 1
                heapq.heappush(waiting, (time.monotonic() + delay + (isLate and 0.02 + delay / 2), number, 1 - end, packet))
        """#
}
