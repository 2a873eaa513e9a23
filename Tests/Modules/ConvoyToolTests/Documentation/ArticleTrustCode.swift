import Convoy
import ConvoyTestServer
import Foundation
import FoundationNetworking

// The code of the article about trust; see ArticleCode.swift.

extension ArticleCode {
    struct Pins {
        var present: String
        var next: String
        var expiry: Date
    }

    // MARK: Pins

    static func pins(_ api: URL, _ pins: Pins) async throws -> HTTPRequestOperationManager {
        // Article: Trust
        let policy = try SecurityPolicy(
            publicKeyPins: [pins.present],  // "sha256/" and base64
            backupPins: [pins.next],  // of a spare key that no server uses yet
            pinsExpire: pins.expiry)  // when every user has a newer version
        let manager = try HTTPRequestOperationManager(baseURL: api, securityPolicy: policy)
        // Article: end
        return manager
    }

    static func certificatePins(_ folder: URL) throws -> SecurityPolicy {
        // Article: Trust
        let certificates = try Certificate.certificates(inDirectory: folder)  // .cer, .crt, .der and .pem
        var policy = SecurityPolicy(pinningMode: .certificate, pinnedCertificates: certificates)
        policy.certificateAuthorities = .certificates(certificates)  // where the system does not know them
        // Article: end
        return policy
    }

    // MARK: Authorities

    static func authority(_ manager: HTTPRequestOperationManager, _ company: URL) throws {
        // Article: Trust
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .systemAnd(try Certificate.certificates(contentsOf: company))
        manager.securityPolicy = policy
        // Article: end
    }

    static func selfSigned(_ manager: HTTPRequestOperationManager, _ file: URL) throws {
        // Article: Trust
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .file(file)
        manager.securityPolicy = policy
        // Article: end
    }

    static func revoked(_ manager: HTTPRequestOperationManager, _ list: URL) throws {
        // Article: Trust
        var policy = SecurityPolicy()
        policy.revocationLists = [list]  // PEM with several lists, or DER
        manager.securityPolicy = policy
        // Article: end
    }

    // MARK: Hosts

    static func hosts(_ pins: Pins, _ company: URL) throws -> SecurityPolicy {
        // Article: Trust
        var intranet = SecurityPolicy()
        intranet.certificateAuthorities = .file(company)

        var policy = SecurityPolicy()
        try policy.setPolicy(intranet, forHosts: "**.corp.example.com")
        try policy.setPolicy(
            SecurityPolicy(publicKeyPins: [pins.present], backupPins: [pins.next]), forHosts: "api.example.com")
        // Article: end
        return policy
    }

    // MARK: Clients

    static func client(
        _ manager: HTTPRequestOperationManager, _ certificate: URL, _ key: URL, ask: @escaping @Sendable () -> String
    ) {
        // Article: Trust
        manager.connectionConfiguration.clientIdentity = ClientIdentity(certificate: certificate, key: key) {
            ask()  // on a thread that may block; only if the key is encrypted
        }
        // Article: end
    }

    static func version(_ manager: HTTPRequestOperationManager) {
        // Article: Trust
        manager.connectionConfiguration.minimumTLSVersion = .tls13
        // Article: end
    }

    // MARK: Errors

    static func trustErrors(_ manager: HTTPRequestOperationManager) async throws -> String {
        // Article: Trust
        let message: String
        do {
            let user: User = try await manager.get("users/1")
            message = "Hello, \(user.name)."
        } catch let error as URLError where error.serverTrustFailure?.reason == .notPinned {
            let keys = (error.serverCertificates ?? []).compactMap { $0.publicKeyPin?.description }
            message = "Another key: \(keys.joined(separator: ", "))"
        } catch let error as URLError where error.serverTrustFailure != nil {
            message = error.serverTrustFailure?.description ?? ""
        }
        // Article: end
        return message
    }

    // MARK: Rehearsing

    static func rehearsal(_ policy: SecurityPolicy, _ file: URL, _ newYear: Date) throws -> Bool {
        // Article: Trust
        let trust = ServerTrust(certificates: try Certificate.certificates(contentsOf: file))
        let decision = policy.evaluate(trust, forDomain: "api.example.com", at: newYear)
        print(decision.failure?.description ?? "trusted", decision.usesBackupPin ? "by a backup pin" : "")
        // Article: end
        return decision.isTrusted
    }
}
