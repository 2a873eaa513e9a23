import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Shared helpers of the authentication tests.
enum Protected {
    static let ada = URLCredential(user: "ada", password: "secret", persistence: .forSession)
    static let wrong = URLCredential(user: "ada", password: "wrong", persistence: .none)

    /// Returns a manager whose operations deliver bytes, and whose handlers do not use the main queue.
    static func manager(_ credential: URLCredential? = ada) -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager()
        manager.completionQueue = DispatchQueue(label: "Convoy.Protected")
        manager.responseSerializer = HTTPResponseSerializer()
        manager.credential = credential
        manager.credentialStore = CredentialStore()
        return manager
    }

    static func proxy(_ text: String) -> ConnectionConfiguration {
        var configuration = ConnectionConfiguration()
        if let proxy = try? Proxy(text) { configuration.proxy = .proxy(proxy) }
        return configuration
    }
}

extension HTTPRequestOperationManager {
    /// Returns the status of the response to a request, or nil if the transfer failed.
    func status(_ url: URL, _ method: String = "GET", body: Data? = nil) async -> Int? {
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.httpBody = body
        let operation = enqueue(makeOperation(request: request))
        try? await operation.finished()
        return operation.statusCode
    }
}
