import Convoy
import Foundation
import FoundationNetworking

// The code of the article about credentials and proxies; see ArticleCode.swift.

extension ArticleCode {
    private struct Grant: Decodable {
        var token: String
        var seconds: Double
        var refreshToken: String?
    }

    static func credential(_ manager: HTTPRequestOperationManager, _ password: String) {
        // Article: Credentials
        manager.credential = URLCredential(user: "ada", password: password, persistence: .forSession)
        // Article: end
    }

    static func store(_ manager: HTTPRequestOperationManager, _ proxyPassword: String) throws {
        // Article: Credentials
        let store = CredentialStore()
        let space = ProtectionSpace(
            host: "proxy.example.com", port: 3128, scheme: "http", method: .digest, isProxy: true)
        store.set(URLCredential(user: "ada", password: proxyPassword, persistence: .forSession), for: space)
        store.netrc = try Netrc(contentsOf: Netrc.standardLocation)
        manager.credentialStore = store
        // Article: end
    }

    static func handler(
        _ manager: HTTPRequestOperationManager, ask: @escaping @Sendable (ProtectionSpace) async -> String?
    ) {
        // Article: Credentials
        manager.authenticationChallengeHandler = { operation, challenge, answer in
            guard challenge.protectionSpace.method != .basic else { return answer(.rejectProtectionSpace) }
            guard challenge.previousFailureCount < 3 else { return answer(.cancel) }
            Task {
                let password = await ask(challenge.protectionSpace)
                let credential = password.map { URLCredential(user: "ada", password: $0, persistence: .forSession) }
                answer(credential.map { .useCredential($0) } ?? .cancel)
            }
        }
        // Article: end
    }

    static func token(_ manager: HTTPRequestOperationManager, _ stored: String) {
        // Article: Credentials
        manager.authenticator = Authenticator { [weak manager] old in
            guard let manager else { throw URLError(.cancelled) }
            let token = old?.refreshToken ?? stored
            let grant: Grant = try await manager.post("token", parameters: ["refresh_token": token])
            return AccessToken(grant.token, expiresIn: grant.seconds, refreshToken: grant.refreshToken)
        }
        // Article: end
    }

    static func guarding(_ manager: HTTPRequestOperationManager) throws {
        // Article: Credentials
        var configuration = manager.connectionConfiguration
        configuration.addressGuard = .publicAddresses.denying(try IPNetwork("203.0.113.0/24"))
        configuration.maximumRedirects = 5
        configuration.proxy = ProxySelection.none  // the guard cannot see where a proxy connects
        manager.connectionConfiguration = configuration
        // Article: end
    }

    static func refusal(_ manager: HTTPRequestOperationManager, _ address: String) async throws -> String {
        // Article: Credentials
        let message: String
        do {
            message = try await manager.get(address)
        } catch let error as URLError {
            message = error.addressRefusal.map { "not for us: \($0)" } ?? error.localizedDescription
        }
        // Article: end
        return message
    }

    static func routes(_ manager: HTTPRequestOperationManager, _ file: URL) throws {
        // Article: Credentials
        var configuration = ConnectionConfiguration()
        let proxy = try Proxy("http://ada:secret@proxy.example.com:3128")
        configuration.proxy = .proxy(proxy, except: ["localhost", "10.0.0.0/8"])
        configuration.addressOverrides["api.example.com"] = "192.0.2.7"
        configuration.hsts = try HSTSStore(file: file)
        manager.connectionConfiguration = configuration
        // Article: end
    }
}
