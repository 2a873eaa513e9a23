import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

/// nginx ends an HTTP/2 connection with GOAWAY after a number of requests, while others are in flight.
@Suite(.serialized, .enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)")) struct LimitedConnectionTests {
    @Test(arguments: [3, 20, 1000])
    func `no POST is lost or processed twice when nginx ends connections`(connectionRequests: Int) throws {
        let processed = Atomic<Int>(0)
        let connections = try ReplayConnections(tls: nil)
        connections.start { channel in
            while channel.endOfHead == nil { guard channel.receive() else { return } }
            processed.add(1, ordering: .relaxed)
            // nginx sends the body after the head, and it is short.
            let head = String(decoding: channel.received, as: UTF8.self)
            while !channel.received.suffix(4).elementsEqual("done".utf8), head.hasPrefix("POST") {
                guard channel.receive() else { return }
            }
            _ = channel.send(Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".utf8))
            channel.finish()
        }
        defer { connections.stop() }
        let nginx = try Nginx(forwardingTo: connections.port, connectionRequests: connectionRequests)
        let manager = HTTPRequestOperationManager(
            configuration: ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority))
        let count = PropertyBudget.rounds(1000)
        let isDone = DispatchGroup()
        let operations = (0..<count).map { number in
            var request = URLRequest(url: nginx.secureURL("forward/\(number)"))
            request.httpMethod = "POST"
            request.httpBody = Data("body \(number) done".utf8)
            let operation = HTTPRequestOperation(request: request)
            operation.connectionConfiguration = manager.connectionConfiguration
            operation.responseSerializer = HTTPResponseSerializer()
            isDone.enter()
            operation.completionBlock = { isDone.leave() }
            return operation
        }
        for operation in operations { manager.enqueue(operation) }
        #expect(isDone.wait(timeout: .now() + 300) == .success)
        let errors = operations.compactMap(\.error)
        #expect(errors.isEmpty, "\(errors.count) of \(count): \(errors.first as Any)")
        #expect(processed.load(ordering: .relaxed) == count)
    }

    @Test func `no GET of a large body fails when nginx ends connections`() throws {
        let nginx = try Nginx(connectionRequests: 20)
        try nginx.add(Data(repeating: 7, count: 200_000), as: "body")
        let isDone = DispatchGroup()
        let operations = (0..<PropertyBudget.rounds(300)).map { _ in
            let operation = HTTPRequestOperation(request: URLRequest(url: nginx.secureURL("body")))
            operation.connectionConfiguration.certificateAuthorities = nginx.certificateAuthority
            operation.responseSerializer = HTTPResponseSerializer()
            isDone.enter()
            operation.completionBlock = { isDone.leave() }
            return operation
        }
        let manager = HTTPRequestOperationManager()
        for operation in operations { manager.enqueue(operation) }
        #expect(isDone.wait(timeout: .now() + 300) == .success)
        #expect(operations.compactMap(\.error).isEmpty)
        #expect(operations.allSatisfy { $0.responseData?.count == 200_000 })
    }
}
