import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Responses that a server sends without a request, and that the next request must not receive.
@Suite(.serialized) struct UnaskedResponseTests {
    /// The time at which the unsolicited response arrives.
    enum Moment: String, CaseIterable, Sendable {
        /// The head is sent in one packet, and the body with the unsolicited response in another. A client that reads
        /// only the length of the body leaves the unsolicited response among its decrypted bytes.
        case withTheBody
        /// The unsolicited response arrives together with the right response, in one piece.
        case atOnce
        /// The unsolicited response arrives immediately after the right response, in a separate piece.
        case behind
        /// The unsolicited response arrives after the right response was delivered and before the next request.
        case whileIdle
    }

    @Test(arguments: Moment.allCases, [false, true])
    func `an unsolicited response is not delivered to any request`(moment: Moment, isSecure: Bool) throws {
        var random = SplitMix64(seed: ReplayTests.seed)
        let all = try Recording.all.get().map { try RecordedResponses($0) }
            .filter { $0.responses.count == 1 && !$0.responses[0].endsConnection }
        #expect(all.count >= 20)
        let recordings = Array(all.shuffled(using: &random).prefix(ReplayTests.isWhole ? .max : 5))
        let plays = Locked<[Int: Play]>([:])
        let tls = isSecure ? try ServerTLS(protocols: ServerTLS.http1) : nil
        let server = try ReplayServer(tls: tls) { request in
            plays.withLock { $0[request.number] } ?? Play(bytes: [], end: .finish)
        }
        defer { server.stop() }
        var configuration = ConnectionConfiguration()
        configuration.usesHTTP2 = false
        configuration.certificateAuthorities = tls?.certificateAuthority
        let client = Client(
            base: isSecure ? "https://localhost:\(server.port)" : "http://127.0.0.1:\(server.port)", configuration)
        for round in 0..<(ReplayTests.isWhole ? 40 : 1) {
            for (index, recording) in recordings.enumerated() {
                let (number, response) = (round * recordings.count + index, recording.responses[0])
                let gate = moment == .whileIdle ? DispatchSemaphore(value: 0) : nil
                let (head, bytes) = (Array(response.bytes[..<response.headLength]), response.bytes)
                let (first, second): ([UInt8], [UInt8]?) =
                    switch moment {
                    case .atOnce: (bytes + bytes, nil)
                    case .withTheBody: (head, bytes[response.headLength...] + bytes)
                    case .behind, .whileIdle: (bytes, bytes)
                    }
                let tail = second.map { Play.Tail(bytes: $0, gate: gate) }
                let play = Play(bytes: first, isSound: true, tail: tail)
                plays.withLock { $0[number] = play }
                let outcome = try client.send(number, response.exchange)
                let name = "\(recording.recording.name), \(moment), round \(round)"
                #expect(outcome == response.outcome, "\(name)")
                gate?.signal()
                try tail?.isSent.waitOrThrow(timeout: 30)
                // A response that arrives while the next request is in flight cannot be distinguished from the right
                // one.
                client.lookAtSockets()
                let probe = FaultOutcome(status: 200, body: Array(ReplayServer.probe(number).utf8))
                #expect(try client.send(number, nil) == probe, "\(name)")
            }
        }
    }

    /// Sends requests sequentially through one manager.
    private final class Client {
        private let manager = HTTPRequestOperationManager(baseURL: nil)
        private let thread = NetworkThread()
        private let base: String
        private let configuration: ConnectionConfiguration

        init(base: String, _ configuration: ConnectionConfiguration) {
            (self.base, self.configuration) = (base, configuration)
        }

        /// Waits until the network thread has checked its sockets.
        func lookAtSockets() {
            for _ in 0..<2 {
                let isDone = DispatchSemaphore(value: 0)
                if thread.perform({ isDone.signal() }) { isDone.wait() }
            }
        }

        /// - Parameter exchange: The exchange; nil for the probe.
        func send(_ number: Int, _ exchange: Recording.Exchange?) throws -> FaultOutcome {
            var request = URLRequest(url: try #require(URL(string: base + (exchange?.target ?? "/probe"))))
            request.httpMethod = exchange?.method ?? "GET"
            request.timeoutInterval = 30
            for (name, value) in exchange?.fields ?? [:] where name != "Accept-Encoding" {
                request.setValue(value, forHTTPHeaderField: name)
            }
            request.setValue("\(number)", forHTTPHeaderField: "X-Case")
            request.httpBody = exchange?.body.map { Data($0.utf8) }
            let operation = HTTPRequestOperation(request: request, thread: thread)
            operation.connectionConfiguration = configuration
            operation.completionQueue = DispatchQueue(label: "Convoy.Tests.unasked")
            var serializer = HTTPResponseSerializer()
            serializer.acceptableStatusCodes = nil
            operation.responseSerializer = serializer
            let isDone = DispatchSemaphore(value: 0)
            operation.completionBlock = { isDone.signal() }
            manager.enqueue(operation)
            try isDone.waitOrThrow(timeout: 40, "\(operation)")
            if let error = operation.error { throw error }
            return FaultOutcome(status: operation.statusCode ?? 0, body: operation.responseData.map { Array($0) } ?? [])
        }
    }
}
