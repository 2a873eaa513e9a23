import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyObjectStorage

/// The moto server shared by all tests of this run.
enum SharedMoto {
    private static let server = Result {
        let server = try Moto()
        // A shared object is never released, so its process would keep running.
        atexit { try? SharedMoto.moto().stop() }
        return server
    }

    static func moto() throws -> Moto { try server.get() }

    /// Creates a storage with its own bucket.
    static func storage(
        _ change: (inout ObjectStorage.Configuration) -> Void = { _ in }
    ) throws -> ObjectStorage {
        let moto = try moto()
        let bucket = "test-\(UUID().uuidString.lowercased())"
        try moto.makeBucket(bucket)
        var configuration = ObjectStorage.Configuration(endpoint: moto.url, region: "us-east-1", bucket: bucket)
        change(&configuration)
        return try ObjectStorage(configuration, credentials: .testing)
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the suite, with a reason, if moto is not installed.
    static var needsMoto: Self { .enabled(if: Moto.isInstalled, "needs \(Moto.installHint)") }
}

extension ObjectStorageCredentials {
    /// The credentials in Amazon's documentation.
    static let documented = ObjectStorageCredentials(
        accessKeyID: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
}

extension ObjectStorageCredentialProvider {
    static let testing = ObjectStorageCredentialProvider { .documented }
}

extension ObjectStorage {
    /// Creates a storage that uses a test server.
    convenience init(
        at server: TestServer, credentials: ObjectStorageCredentialProvider = .testing,
        _ change: (inout Configuration) -> Void = { _ in }
    ) throws {
        var configuration = Configuration(endpoint: server.url, region: "us-east-1", bucket: "bucket")
        configuration.retryPolicy?.initialDelay = 0.01
        change(&configuration)
        try self.init(configuration, credentials: credentials)
    }
}

extension RecordedRequest {
    /// Returns whether the signature matches the received request.
    func hasSignature(
        of credentials: ObjectStorageCredentials = .documented, region: String = "us-east-1"
    ) throws -> Bool {
        let value = try #require(headers["Authorization"])
        let names = try #require(value.firstMatch(of: /SignedHeaders=([^,]+)/)).1.split(separator: ";")
        let date = try #require(headers["x-amz-date"])
        let time = try Date(
            date, strategy: .iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
        var payload = headers["x-amz-content-sha256"] ?? ""
        if payload != "UNSIGNED-PAYLOAD" {
            payload = RequestPayload(.data(body)).sha256Text
            #expect(payload == headers["x-amz-content-sha256"])
        }
        let signature = SignatureV4(credentials: credentials, region: region, date: time)
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let expected = try signature.authorization(
            method: method, path: String(parts[0]), query: parts.count > 1 ? String(parts[1]) : "",
            headers: names.map { (String($0), headers[String($0)] ?? "") },
            payload: payload == "UNSIGNED-PAYLOAD" ? .unsigned : .digest(payload))
        return value == expected
    }
}

extension RequestPayload {
    var sha256Text: String { (try? digests().sha256.hexadecimalString) ?? "" }
}

/// Returns the storage error of a call that must fail with one.
func storageError(_ call: () async throws -> Void) async -> ObjectStorageError? {
    do {
        try await call()
        Issue.record("The call succeeded unexpectedly.")
    } catch let error as ObjectStorageError {
        return error
    } catch {
        Issue.record("Another error: \(error)")
    }
    return nil
}

/// Creates an error document.
func errorDocument(_ code: String, status: Int, more: String = "") -> TestServer.Response {
    .bytes(
        Data(
            "<?xml version=\"1.0\"?><Error><Code>\(code)</Code><Message>A reason.</Message><RequestId>R1</RequestId>\(more)</Error>"
                .utf8), type: "application/xml", status: status)
}
