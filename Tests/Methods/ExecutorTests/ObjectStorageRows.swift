import ConvoyObjectStorage
import Foundation

/// The functions of object storage.
enum ObjectStorageRows {
    static let all = objects + uploads

    private static let objects = [
        row("ObjectStorage.put(_:key:contentType:metadata:condition:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.storage().put(Data("text".utf8), key: "a")
        },
        row("ObjectStorage.put(fileAt:key:contentType:metadata:condition:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.storage().put(fileAt: attempt.writtenFile(), key: "a")
        },
        row("ObjectStorage.get(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.storage().get("a")
        },
        row("ObjectStorage.head(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.storage().head("a")
        },
        row("ObjectStorage.delete(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.storage().delete("a")
        },
        row("ObjectStorage.copy(_:to:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.storage().copy("a", to: "b")
        },
        row("ObjectStorage.list(prefix:delimiter:limit:continuingAfter:)") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.storage().list()
        },
        row("ObjectStorage.pages(prefix:delimiter:limit:)") { actor, attempt in
            defer { attempt.check(actor) }
            for try await _ in try attempt.storage().pages() { break }
        },
        row("ObjectStorage.pages(prefix:delimiter:limit:)") { actor, attempt in
            defer { attempt.check(actor) }
            var iterator = try attempt.storage().pages().makeAsyncIterator()
            _ = try await iterator.next()
        },
    ]

    private static let uploads = [
        row("ObjectStorage.beginUpload(of:key:contentType:metadata:)") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.storage().beginUpload(of: attempt.writtenFile(), key: "a")
        },
        row("ObjectStorage.resume(_:condition:checkpoint:)") { actor, attempt in
            defer { attempt.check(actor) }
            let upload = try await attempt.storage(.success).beginUpload(of: attempt.writtenFile(), key: "a")
            try await attempt.storage().resume(upload)
        },
        row("ObjectStorage.abort(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            let upload = try await attempt.storage(.success).beginUpload(of: attempt.writtenFile(), key: "a")
            try await attempt.storage().abort(upload)
        },
    ]
}

extension Attempt {
    /// Returns a storage whose requests end in the given way.
    fileprivate func storage(_ ending: Ending? = nil) throws -> ObjectStorage {
        var configuration = ObjectStorage.Configuration(
            endpoint: url("storage", ending), region: "us-east-1", bucket: "bucket")
        configuration.checksum = .none
        configuration.retryPolicy = nil
        let credentials = ObjectStorageCredentials(accessKeyID: "key", secretAccessKey: "secret")
        return try ObjectStorage(configuration, credentials: ObjectStorageCredentialProvider { credentials })
    }
}
