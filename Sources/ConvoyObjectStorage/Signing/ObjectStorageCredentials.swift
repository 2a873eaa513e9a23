import ConvoySupport
import Foundation

/// The keys that sign requests to object storage. They are never printed.
public struct ObjectStorageCredentials: Sendable, Hashable {
    /// The identifier of the key, which is visible in requests.
    public var accessKeyID: String
    /// The secret of the key, which is never sent.
    public var secretAccessKey: String
    /// The token of temporary credentials, sent with each request; nil for none.
    public var sessionToken: String?

    /// Creates credentials with or without a session token.
    public init(accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil) {
        self.accessKeyID = accessKeyID
        self.secretAccessKey = secretAccessKey
        self.sessionToken = sessionToken
    }
}

extension ObjectStorageCredentials: CustomStringConvertible, OpaqueReflectable {
    /// A description without the keys.
    public var description: String { "ObjectStorageCredentials(\(Redaction.mask))" }
}

/// A provider of the credentials of an ``ObjectStorage``. It is called whenever a request is signed, so that
/// credentials are not stored and can change while a program runs.
public struct ObjectStorageCredentialProvider: Sendable {
    private let provide: @Sendable () throws -> ObjectStorageCredentials

    /// Creates a provider that calls a closure on a library thread, which it may block. If the closure throws, the
    /// request fails with that error.
    public init(_ provide: @escaping @Sendable () throws -> ObjectStorageCredentials) { self.provide = provide }

    /// A provider that reads `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` from the environment.
    public static let environment = environment()

    /// Returns a provider that reads environment variables. If a key is missing, the request fails with
    /// ``ObjectStorageError/Code/noCredentials``; the session token is optional.
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
                    .noCredentials, "Set both environment variables \(accessKeyID) and \(secretAccessKey).")
            }
            return ObjectStorageCredentials(
                accessKeyID: key, secretAccessKey: secret, sessionToken: variable(sessionToken))
        }
    }

    /// Returns a provider that runs a command, in the format of Amazon's `credential_process`. The command is run by
    /// `/bin/sh`, prints JSON, and must end within 60 seconds. Its credentials are used until shortly before they expire.
    /// If it fails, the request fails with ``ObjectStorageError/Code/noCredentials``.
    public static func command(_ command: String) -> ObjectStorageCredentialProvider {
        let command = CredentialCommand(command)
        return ObjectStorageCredentialProvider { try command.credentials() }
    }

    /// Returns a provider that reads a profile from `~/.aws/credentials` and `~/.aws/config`, whose paths
    /// `AWS_SHARED_CREDENTIALS_FILE` and `AWS_CONFIG_FILE` override. A profile has keys or a `credential_process`. The
    /// files are read once.
    ///
    /// - Parameter name: The name of the profile; nil for that of `AWS_PROFILE`, or `default`.
    /// - Throws: ``ObjectStorageError/Code/noCredentials`` if the profile does not exist or has no credentials.
    public static func profile(_ name: String? = nil) throws(ObjectStorageError) -> ObjectStorageCredentialProvider {
        try StorageProfile(name).provider()
    }

    /// Returns the credentials for a request. Blocks while the closure does.
    func credentials() throws -> ObjectStorageCredentials {
        let credentials = try provide()
        guard let token = credentials.sessionToken, !HTTPSyntax.isFieldValue(token) else {
            guard HTTPSyntax.isFieldValue(credentials.accessKeyID) else {
                throw ObjectStorageError(.noCredentials, "The access key contains invalid characters.")
            }
            return credentials
        }
        throw ObjectStorageError(.noCredentials, "The session token contains invalid characters.")
    }
}

extension ObjectStorageCredentialProvider: OpaqueReflectable {}
