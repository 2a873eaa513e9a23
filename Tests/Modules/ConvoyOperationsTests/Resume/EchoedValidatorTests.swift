import ConvoyCache
import ConvoySerialization
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that validators are sent back byte for byte or not at all, and never cause a request to fail.
@Suite struct EchoedValidatorTests {
    let server: ValidatorServer
    let directory: TemporaryDirectory

    init() throws {
        server = try ValidatorServer()
        directory = try TemporaryDirectory(prefix: "echoed")
    }

    private func get(_ name: String, _ cache: HTTPCache? = nil, retries: Bool = false) async -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url(name)))
        operation.completionQueue = testQueue
        operation.responseSerializer = HTTPResponseSerializer()
        operation.cache = cache
        if retries {
            var policy = RetryPolicy()
            policy.initialDelay = 0
            operation.retryPolicy = policy
        }
        operation.start()
        try? await operation.finished()
        return operation
    }

    private func expectBody(_ operation: HTTPRequestOperation, _ byte: UInt8) {
        #expect(operation.error == nil && operation.responseData == ValidatorServer.body, "\(byte): \(operation)")
    }

    @Test func `a response in memory is validated with the exact bytes of its tag`() async throws {
        let cache = HTTPCache()
        for (byte, tag, isSendable) in ValidatorServer.tags {
            server.tag = tag
            for round in 0..<2 {
                expectBody(await get("\(byte)", cache), byte)
                let requests = server.takeRequests()
                #expect(requests.count == 1, "\(byte)")
                #expect(requests.first?.field("If-None-Match") == (round == 1 && isSendable ? tag : nil), "\(byte)")
            }
        }
    }

    @Test func `a response on disk is validated with the exact bytes of its tag after a restart`() async throws {
        let folder = directory.file("cache")
        for round in 0..<3 {
            let cache = try HTTPCache(directory: folder, memoryCapacity: 0)
            for (byte, tag, isSendable) in ValidatorServer.tags {
                server.tag = tag
                expectBody(await get("\(byte)", cache), byte)
                let condition = server.takeRequests().first?.field("If-None-Match")
                #expect(condition == (round > 0 && isSendable ? tag : nil), "\(byte)")
            }
            try cache.flush()
        }
    }

    @Test func `an operation resumes with the exact bytes of the tag, or starts over`() async throws {
        for (byte, tag, isSendable) in ValidatorServer.tags {
            server.tag = tag
            server.cutNext()
            let operation = HTTPRequestOperation(request: URLRequest(url: server.url("\(byte)")))
            operation.completionQueue = testQueue
            var policy = RetryPolicy()
            policy.initialDelay = 0
            operation.retryPolicy = policy
            operation.start()
            try? await operation.finished()
            expectBody(operation, byte)
            let requests = server.takeRequests()
            #expect(requests.count == 2, "\(byte)")
            #expect(requests.last?.field("If-Range") == (isSendable ? tag : nil), "\(byte)")
            #expect((requests.last?.field("Range") != nil) == isSendable, "\(byte)")
        }
    }

    @Test func `a caller's own validator is still checked`() async {
        var request = URLRequest(url: server.url("own"))
        request.setValue("\"a\u{1}b\"", forHTTPHeaderField: "If-None-Match")
        let operation = HTTPRequestOperation(request: request)
        operation.start()
        try? await operation.finished()
        #expect((operation.error as? URLError)?.code == .badURL)
        #expect(server.takeRequests().isEmpty)
    }
}
