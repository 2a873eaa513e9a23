import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that the manager's decoder is used for everything that the manager decodes.
@Suite struct ManagerDecoderTests {
    struct User: Codable, Hashable, Sendable { var firstName: String }

    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        server.route("/user", .json(text: #"{"first_name": "Ada"}"#))
        server.route("/refused", .json(text: #"{"first_name": "Ada"}"#, status: 409))
        server.route("/other", .json(text: #"{"name": "Ada"}"#))
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.decoder.keyDecodingStrategy = .convertFromSnakeCase
    }

    private let ada = User(firstName: "Ada")

    @Test func `awaited values, typed operations and operation values use the manager's decoder`() async throws {
        let awaited: User = try await manager.get("user")
        let typed = manager.operation(.get, "user", as: User.self)
        manager.enqueue([typed])
        let operation = manager.enqueue(try manager.makeOperation(.get, "user"))
        let values = [awaited, try await typed.value(), try await operation.value(as: User.self)]
        #expect(values == [ada, ada, ada])
        #expect(operation.responseObject is [String: Any])
    }

    @Test func `a serializer without its own decoder uses the manager's, including in a compound`() async throws {
        for serializer in [
            DecodableResponseSerializer<User>(),
            CompoundResponseSerializer([XMLParserResponseSerializer(), DecodableResponseSerializer<User>()]),
        ] as [any HTTPResponseSerialization] {
            manager.responseSerializer = serializer
            let operation = manager.enqueue(try manager.makeOperation(.get, "user"))
            #expect(try await operation.value(as: User.self) == ada)
            #expect(operation.responseObject as? User == ada)
        }
        manager.responseSerializer = DecodableResponseSerializer<User> { JSONDecoder() }
        let operation = manager.enqueue(try manager.makeOperation(.get, "user"))
        await #expect(throws: HTTPError.self) { try await operation.finished() }
    }

    @Test func `an error body is decoded by the manager's decoder unless another one is passed`() async throws {
        let awaited = await #expect(throws: HTTPError.self) { let _: Bool = try await manager.get("refused") }
        let operation = manager.enqueue(try manager.makeOperation(.get, "refused"))
        let ofOperation = await #expect(throws: HTTPError.self) { try await operation.finished() }
        for error in [awaited, ofOperation] {
            let error = try #require(error)
            #expect(try error.decoded(as: User.self) == ada)
            #expect(throws: DecodingError.self) { try error.decoded(as: User.self, by: JSONDecoder()) }
        }
    }

    @Test func `a copied manager has its own decoder with the same strategies`() async throws {
        let copy = manager.makeCopy()
        manager.decoder.keyDecodingStrategy = .useDefaultKeys
        #expect(try await copy.get("user", as: User.self) == ada)
        await #expect(throws: HTTPError.self) { try await manager.get("user", as: User.self) }
    }

    @Test func `the error for a missing value names the missing key`() async throws {
        let operation = manager.enqueue(try manager.makeOperation(.get, "other"))
        let error = await #expect(throws: HTTPError.self) { try await operation.value(as: User.self) }
        #expect(error?.localizedDescription.contains(#"The key "firstName" is missing."#) == true)
        #expect(error?.url?.path == "/other" && operation.error == nil)
    }
}
