import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that traces report the activity of connections in order, on their queue, and without secrets.
@Suite struct ConnectionTraceTests {
    /// A trace and the lines that it has reported.
    private final class Listener: Sendable {
        let queue = DispatchQueue(label: "Convoy.Trace")
        private let heard = Locked<[TraceLine]>([])

        func trace(showsSecrets: Bool = false, capacity: Int = 10_000) -> ConnectionTrace {
            ConnectionTrace(showsSecrets: showsSecrets, capacity: capacity, on: queue) { [self] line in
                dispatchPrecondition(condition: .onQueue(queue))
                heard.withLock { $0.append(line) }
            }
        }

        /// All lines, once the queue has delivered them.
        var lines: [TraceLine] {
            queue.sync {}
            return heard.withLock { $0 }
        }

        var texts: [String] { lines.map(\.description) }
    }

    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route(nil, "/echo", .text("0123456789").header("Set-Cookie", "a=s3cret").header("X-Answer", "yes"))
    }

    private func request(_ url: URL) -> URLRequest {
        var request = URLRequest(url: url)
        for name in ["Authorization", "Cookie", "X-Own"] { request.setValue("s3cret", forHTTPHeaderField: name) }
        return request
    }

    private func configuration(_ trace: ConnectionTrace) -> ConnectionConfiguration {
        var configuration = ConnectionConfiguration(sensitiveHeaders: ["x-own"])
        configuration.trace = trace
        configuration.securityPolicy = TrustedServer.lax
        return configuration
    }

    @Test func `heads, connections, redirects and body sizes are reported in order`() throws {
        let listener = Listener()
        let thread = NetworkThread()
        server.redirect("/start", to: "/echo?token=s3cret")
        var request = request(server.url("/start?token=s3cret"))
        request.httpMethod = "PUT"
        request.httpBody = Data("body".utf8)
        let heard = try #require(load(request, configuration: configuration(listener.trace()), thread: thread))
        #expect(heard.isFinished)
        let texts = listener.texts
        var rest = texts[...]
        for expected in [
            "* Trying 127.0.0.1:\(server.port)", "* Connected to 127.0.0.1", "> PUT /start?token=*** HTTP/1.1",
            "} 4 bytes", "< HTTP/1.1 302 Found", "* redirect: 302 http://127.0.0.1:\(server.port)/start?token=***",
            "* Re-using existing", "> PUT /echo?token=*** HTTP/1.1", "} 4 bytes", "< HTTP/1.1 200 OK", "{ 10 bytes",
        ] {
            let index = try #require(
                rest.firstIndex { text in
                    // Newer libcurl versions use different words.
                    text.replacing("* Reusing", with: "* Re-using").replacing("Established connection", with: "Connected")
                        .hasPrefix(expected)
                }, "\(expected) in \(texts)")
            rest = rest[(index + 1)...]
        }
        #expect(texts.contains("> Authorization: ***") && texts.contains("< Set-Cookie: ***"))
        #expect(texts.contains("< X-Answer: yes") && !texts.contains { $0.contains("s3cret") })
        #expect(Set(listener.lines.map(\.transfer)) == [1])
    }

    @Test func `secrets are shown on request`() throws {
        let listener = Listener()
        let trace = listener.trace(showsSecrets: true)
        _ = try #require(load(request(server.url("/echo?token=s3cret")), configuration: configuration(trace)))
        let texts = listener.texts
        #expect(texts.contains("> Authorization: s3cret") && texts.contains("> GET /echo?token=s3cret HTTP/1.1"))
    }

    @Test func `TLS is reported with its version and cipher`() throws {
        let secure = try TrustedServer()
        let listener = Listener()
        let heard = try #require(
            load(request(secure.url), configuration: configuration(listener.trace()), thread: secure.thread))
        #expect(heard.isFinished)
        #expect(listener.texts.contains { $0.hasPrefix("* SSL connection using TLSv1.3 / TLS_") }, "\(listener.texts)")
        #expect(!listener.texts.contains { $0.contains("s3cret") })
    }

    @Test func `a failed transfer is reported without secrets`() throws {
        let listener = Listener()
        server.stop()
        let heard = try #require(
            load(request(server.url("/echo?token=s3cret")), configuration: configuration(listener.trace())))
        #expect(heard.error != nil)
        #expect(listener.texts.last?.hasPrefix("* failed: ") == true && !listener.texts.contains { $0.contains("s3cret") })
    }

    @Test func `the next transfer on the same handle is not traced`() throws {
        let listener = Listener()
        let thread = NetworkThread()
        let plain = URLRequest(url: server.url("/echo"))
        let first = load(plain, configuration: configuration(listener.trace()), thread: thread)
        #expect(first?.isFinished == true)
        let count = listener.lines.count
        let other = Listener()
        for _ in 0..<3 { #expect(load(plain, thread: thread)?.isFinished == true) }
        let last = load(plain, configuration: configuration(other.trace()), thread: thread)
        #expect(last?.isFinished == true && listener.lines.count == count && !other.lines.isEmpty)
        #expect(server.totalConnectionCount == 1)
    }

    @Test func `a queue that cannot keep up loses lines and reports how many`() throws {
        let listener = Listener()
        let trace = listener.trace(capacity: 20)
        let gate = DispatchSemaphore(value: 0)
        listener.queue.async { gate.wait() }
        for _ in 0..<10 {
            let heard = load(URLRequest(url: server.url("/echo")), configuration: configuration(trace))
            #expect(heard?.isFinished == true)
        }
        gate.signal()
        let lines = listener.lines
        #expect(lines.count == 21)
        let dropped = try #require(lines.last?.text.split(separator: " ").first.flatMap { Int($0) })
        #expect(dropped > 40)
        _ = load(URLRequest(url: server.url("/echo")), configuration: configuration(trace))
        #expect(listener.lines.count > 21)
    }

    @Test func `lines are delivered serially and in order, even on a concurrent queue`() throws {
        let heard = Locked<(lines: [TraceLine], isBusy: Bool, overlaps: Int)>(([], false, 0))
        let queue = DispatchQueue(label: "Convoy.Trace", attributes: .concurrent)
        let trace = ConnectionTrace(on: queue) { line in
            heard.withLock { if $0.isBusy { $0.overlaps += 1 } else { $0.isBusy = true } }
            heard.withLock {
                $0.lines.append(line)
                $0.isBusy = false
            }
        }
        for _ in 0..<20 { _ = load(URLRequest(url: server.url("/echo")), configuration: configuration(trace)) }
        queue.sync(flags: .barrier) {}
        let (lines, _, overlaps) = heard.withLock { $0 }
        #expect(overlaps == 0 && lines.map(\.transfer) == lines.map(\.transfer).sorted())
        #expect(lines.last?.transfer == 20)
    }

    @Test func `two traces are equal only if they are identical`() {
        let (one, other) = (Listener().trace(), Listener().trace())
        #expect(one == one && one != other && configuration(one) != configuration(other))
    }

    @Test func `tracing a folded first line does not crash`() throws {
        server.route("/fold", .raw(Data("HTTP/1.1 200 OK\r\n X: folded\r\nContent-Length: 0\r\n\r\n".utf8)))
        let listener = Listener()
        let thread = NetworkThread()
        let configuration = configuration(listener.trace())
        for _ in 0..<3 {
            let plain = load(URLRequest(url: server.url("/echo")), configuration: configuration, thread: thread)
            #expect(plain?.isFinished == true)
            let heard = load(URLRequest(url: server.url("/fold")), configuration: configuration, thread: thread)
            #expect(heard?.error?.code == .badServerResponse)
        }
        #expect(listener.texts.contains("<  X: folded"))
    }
}
