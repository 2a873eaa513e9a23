import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// Forms that must be sent again, with a server that reads them completely before it redirects.
@Suite struct ReplayTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager
    let data = PatternBytes.data(count: 1 << 20)

    init() throws {
        server = try TestServer()
        server.redirect("/here", to: "/there", status: 307)
        server.route("POST", "/there", .json(text: "{}"))
        manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "Convoy.RoundTrips.Replay")
    }

    @Test func `a part from a recreated stream is sent again`() async throws {
        let data = data
        let operation = try manager.makeMultipartOperation("here") { form in
            form.appendPart(
                name: "again", fileName: "again.bin", length: Int64(data.count), mimeType: "application/octet-stream"
            ) { InputStream(data: data) }
        }
        try await manager.enqueue(operation).finished()
        let bodies = server.requests.map(\.body)
        #expect(server.requests.map(\.path) == ["/here", "/there"])
        #expect(bodies.first == bodies.last && bodies.first?.range(of: data) != nil)
    }

    @Test func `a part from a stream that can be read only once fails without sending wrong bytes`() async throws {
        let operation = try manager.makeMultipartOperation("here") { form in
            form.appendPart(
                inputStream: InputStream(data: data), name: "once", fileName: "once.bin", length: Int64(data.count),
                mimeType: "application/octet-stream")
        }
        await #expect(throws: URLError.self) { try await manager.enqueue(operation).finished() }
        #expect((operation.error as? URLError)?.code == .requestBodyStreamExhausted)
        #expect(server.requests.map(\.path) == ["/here"])
        #expect(server.requests.first?.body.range(of: data) != nil)
    }
}
