import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Serialized, because the tests count descriptors and memory of the process.
@Suite(.serialized)
struct EnduranceTests {
    @Test func `a server responds to another request while it holds 1,000 slow connections`() throws {
        ProcessMeters.raiseDescriptorLimit()
        let server = try TestServer()
        let gate = TestServer.Gate()
        server.route("/slow", .text("slow").held(by: gate))
        server.route("/quick", .text("quick"))
        let clients = try (0..<1000).map { _ in try RawClient(port: server.port) }
        for client in clients { try client.request("GET", "/slow") }
        try server.wait { $0.activeRequestCount == 1000 }
        #expect(try RawClient(port: server.port).exchange("GET", "/quick").text == "quick")
        gate.open()
        for client in clients { #expect(try client.response().text == "slow") }
        #expect(server.totalConnectionCount == 1001 && server.peakActiveRequestCount >= 1000)
    }

    @Test(arguments: 0..<4)
    func `a server responds to garbage with an error or silence and never crashes`(seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let server = try TestServer()
        server.route("/", .text("alive"))
        for _ in 0..<50 {
            let client = try RawClient(port: server.port)
            var bytes = random.data(count: Int.random(in: 1...3000, using: &random))
            if Bool.random(using: &random) { bytes = Data("POST / HTTP/1.1\r\nHost: x\r\n".utf8) + bytes }
            // The server may have rejected the request and closed the connection before the last byte.
            do { try client.send(bytes) } catch {}
            client.finishSending()
            let answer = (try? client.readToEnd()) ?? Data()
            #expect(
                answer.isEmpty || answer.starts(with: Data("HTTP/1.1 4".utf8))
                    || answer.starts(with: Data("HTTP/1.1 50".utf8)))
        }
        #expect(try RawClient(port: server.port).exchange("GET", "/").text == "alive")
    }

    @Test func `a server survives clients that reset at any time`() throws {
        let server = try TestServer()
        server.route("/big", .pattern(count: 50_000_000))
        server.route("/handler") { _ in .text("x") }
        server.route("/late", .text("x").delayed(0.01))
        for index in 0..<90 {
            let client = try RawClient(port: server.port)
            try client.request("GET", ["/big", "/handler", "/late"][index % 3])
            client.reset()
        }
        try server.wait { $0.totalConnectionCount == 90 && $0.openConnectionCount == 0 && $0.activeRequestCount == 0 }
    }

    @Test func `stopping during transfers, delays, stalls, gates and handlers leaks no descriptors`()
        throws
    {
        // Start a server once, for descriptors that the process opens only once.
        try TestServer().stop()
        let before = ProcessMeters.openDescriptors
        for _ in 0..<5 {
            let server = try TestServer()
            let gate = TestServer.Gate(), entered = DispatchSemaphore(value: 0), leave = DispatchSemaphore(value: 0)
            server.route("/big", .pattern(count: 1 << 40))
            server.route("/delay", .text("x").delayed(1000))
            server.route("/stall", .text("x").stalls(afterBytes: 0))
            server.route("/gate", .text("x").held(by: gate))
            server.route("/handler") { _ in
                entered.signal()
                leave.wait()
                return .text("too late")
            }
            let clients = try ["/big", "/delay", "/stall", "/gate", "/handler"].map { path in
                let client = try RawClient(port: server.port)
                try client.request("GET", path)
                return client
            }
            try server.wait { $0.activeRequestCount == 5 }
            try entered.waitOrThrow()
            server.stop()
            server.stop()
            #expect(server.openConnectionCount == 0)
            #expect(throws: RawClient.Failure.self) { _ = try RawClient(port: server.port) }
            leave.signal()
            gate.open()
            for client in clients { client.close() }
        }
        try eventually("descriptors to return to \(before): \(ProcessMeters.descriptorTargets)") {
            ProcessMeters.openDescriptors <= before
        }
    }

    @Test func `a stopped server is released despite a route that refers to it, and a released one stops`() throws {
        weak var weakly: TestServer?
        let port: UInt16
        do {
            let server = try TestServer()
            server.route("/self") { _ in .text("\(server.port)") }
            weakly = server
            port = server.port
            #expect(try RawClient(port: port).exchange("GET", "/self").text == "\(port)")
            server.stop()
        }
        // The handler's thread releases it shortly after the response.
        try eventually("the server to be released") { weakly == nil }
        let free: UInt16
        do { free = try TestServer().port }
        #expect(throws: RawClient.Failure.self) { _ = try RawClient(port: free) }
    }

    @Test func `a server drops all connections on request and keeps running`() throws {
        let server = try TestServer()
        server.route("/", .text("x"))
        let client = try RawClient(port: server.port)
        _ = try client.exchange("GET", "/")
        server.dropConnections()
        #expect(try client.readToEnd().isEmpty)
        #expect(try RawClient(port: server.port).exchange("GET", "/").text == "x")
    }
}
