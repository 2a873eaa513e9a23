import ConvoySupport
import Foundation

/// The keys that sign requests to object storage. They are never printed.
public struct ObjectStorageCredentials: Sendable, Hashable {
    /// The name of the key, which requests show.
    public var accessKeyID: String
    /// The secret of the key, which is never sent.
    public var secretAccessKey: String
    /// The token of temporary credentials, which goes with each request; nil for none.
    public var sessionToken: String?

    /// Credentials with or without a session token.
    public init(accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil) {
        (self.accessKeyID, self.secretAccessKey, self.sessionToken) = (accessKeyID, secretAccessKey, sessionToken)
    }
}

extension ObjectStorageCredentials: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Without the keys.
    public var description: String { "ObjectStorageCredentials(\(Redaction.mask))" }
    /// Without the keys.
    public var debugDescription: String { description }
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Provides the credentials of an ``ObjectStorage`` each time that a request is signed, so that they are stored nowhere and
/// can change while a program runs.
public struct ObjectStorageCredentialProvider: Sendable {
    private let provide: @Sendable () throws -> ObjectStorageCredentials

    /// A provider that calls a closure, on one of the library's threads, which it may block. An error that it throws becomes
    /// that of the request.
    public init(_ provide: @escaping @Sendable () throws -> ObjectStorageCredentials) { self.provide = provide }

    /// The variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` of the process.
    public static let environment = environment()

    /// Variables of the process. One that is missing fails the request with ``ObjectStorageError/Code/noCredentials``; the
    /// session token may be missing.
    public static func environment(
        accessKeyID: String = "AWS_ACCESS_KEY_ID", secretAccessKey: String = "AWS_SECRET_ACCESS_KEY",
        sessionToken: String = "AWS_SESSION_TOKEN"
    ) -> ObjectStorageCredentialProvider {
        ObjectStorageCredentialProvider {
            func variable(_ name: String) -> String? {
                getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
            }
            guard let key = variable(accessKeyID), let secret = variable(secretAccessKey) else {
                throw ObjectStorageError(
                    .noCredentials, "The variables \(accessKeyID) and \(secretAccessKey) are not both set.")
            }
            return ObjectStorageCredentials(
                accessKeyID: key, secretAccessKey: secret, sessionToken: variable(sessionToken))
        }
    }

    /// The credentials for a request. Blocks while the closure does.
    func credentials() throws -> ObjectStorageCredentials {
        let credentials = try provide()
        guard let token = credentials.sessionToken, !HTTPSyntax.isFieldValue(token) else {
            guard HTTPSyntax.isFieldValue(credentials.accessKeyID) else {
                throw ObjectStorageError(.noCredentials, "The access key has characters that cannot be sent.")
            }
            return credentials
        }
        throw ObjectStorageError(.noCredentials, "The session token has characters that cannot be sent.")
    }
}

extension ObjectStorageCredentialProvider: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
