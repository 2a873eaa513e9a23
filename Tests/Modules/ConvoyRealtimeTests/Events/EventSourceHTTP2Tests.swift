import ConvoyOperations
import ConvoyRealtime
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Sources that share one HTTP/2 connection.
@Suite(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)")) struct EventSourceHTTP2Tests {
    @Test func `20 sources share one connection without delaying events or other requests`() async throws {
        let server = try TestServer()
        server.route("GET", "/live", .openEvents("id: 1\ndata: first\n\n"))
        server.route("GET", "/page", .text("page"))
        let nginx = try Nginx(forwardingTo: server.port)
        defer { nginx.stop() }
        let manager = HTTPRequestOperationManager(
            baseURL: nginx.secureURL, completionQueue: DispatchQueue(label: "handlers"))
        manager.connectionConfiguration.certificateAuthorities = nginx.certificateAuthority
        let recorder = EventRecorder()
        let sources = try (0..<20).map { _ in
            let source = try manager.makeEventSource("forward/live")
            source.eventHandler = { recorder.note($1) }
            return source
        }
        manager.enqueue(sources)
        try await waitUntil("an event of each") { recorder.data.count == 20 }
        #expect(sources.allSatisfy { $0.readyState == .open })
        #expect(sources.allSatisfy { $0.responseHead?["X-Server-Protocol"] == "HTTP/2.0" })
        // libcurl reports the end of a stream only with the next frame of its connection.
        func request() async throws {
            let page: String = try await manager.get("forward/page")
            #expect(page == "page")
        }
        try await request()
        // Each source is a separate stream, so the others continue.
        for source in sources.dropFirst() { source.close() }
        for source in sources.dropFirst() { try await source.finished() }
        try await request()
        try await waitUntil("the server to see the ends") { server.statistics.activeRequestCount == 1 }
        #expect(sources[0].readyState == .open)
        sources[0].pause()
        try await waitUntil("the pause") { sources[0].readyState == .connecting }
        try await request()
        try await waitUntil("the server to see the pause") { server.statistics.activeRequestCount == 0 }
        sources[0].resume()
        try await waitUntil("another request") { server.requests("/live").last?.headers["Last-Event-ID"] == "1" }
        sources[0].close()
        try await sources[0].finished()
    }
}
