import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// A request that a ``SharedQueue`` keeps until a worker has executed it, on this machine or another.
///
/// ```swift
/// var export = SharedRequest(URLRequest(url: url))
/// export.responseBody = .entry()
/// export.uniqueKey = "export-2026-11"
/// try await queue.enqueue(export)
/// ```
///
/// As with a `DownloadQueue`, header fields with secrets are not stored, and a URL with a secret is rejected.
public struct SharedRequest: Sendable, Identifiable {
    /// The handling of a response body. Downloads have a destination instead.
    public enum ResponseBody: Sendable, Hashable {
        /// The body is discarded.
        case discarded
        /// The body is stored in the entry, unless it is longer than a limit in bytes. See ``SharedQueue/result(of:)``.
        case entry(maximumLength: Int = 65_536)
        /// The body is written to a file at a relative path in the folder that has this name in the worker's settings.
        case folder(String, path: String)
        /// The body is stored under a key in the object storage that has this name in the worker's settings.
        case objectStorage(String, key: String)
    }

    /// The identifier of the entry, which the ``dependencies`` of other requests can contain.
    public let id: UUID
    /// The identifiers of the entries that must end first. These entries are in the queue, or are enqueued in the same
    /// call.
    public var dependencies: Set<UUID>
    /// The handling of a dependency that failed or was cancelled.
    public var failedDependencyPolicy: FailedDependencyPolicy
    /// The priority among the entries that are ready to start. Each step (`.high` is 4, `.veryHigh` is 8) is equivalent
    /// to 15 minutes of waiting, so an entry of low priority is not delayed forever.
    public var priority: Operation.QueuePriority
    /// A tag by which workers select entries; at most 800 bytes, without control characters. Do not put secrets in it.
    public var tag: String?
    /// The group of the entry: see ``SharedQueue/enqueue(_:group:completion:)``.
    public var group: String?
    /// A key that prevents duplicates: while an entry with this key, or its result, exists and has not failed, that
    /// entry is used instead.
    public var uniqueKey: String?
    /// The time for which the unique key prevents duplicates, in seconds since the other entry was enqueued; nil for as
    /// long as that entry exists. After this time the other entry loses the key, even if it has not ended.
    public var uniquePeriod: TimeInterval?
    /// The earliest start time.
    public var notBefore: Date?
    /// The time at which the entry fails unless its last attempt has begun, according to the clock of the database.
    public var deadline: Date?
    /// The number of attempts after which the entry fails permanently. The default is 25. An attempt counts even if its
    /// worker ended before completing it.
    public var maximumAttempts = 25
    /// The time for which the entry and its result are kept after the entry has succeeded or was cancelled, in seconds;
    /// nil for no limit. The default is a week. A failed entry is kept until it is retried, cancelled or removed with
    /// ``SharedQueue/purge(_:olderThan:)``.
    public var resultLifetime: TimeInterval? = 7 * 86_400
    /// Whether to store the header of the response. The default is true.
    public var keepsResponseHeader = true
    /// The handling of the response body, which is discarded by default.
    public var responseBody = ResponseBody.discarded
    /// The trace of the attempts (W3C Trace Context), each of which is a separate span. The default is nil.
    public var traceContext: TraceContext?

    let kind: WorkKind
    private let stored: @Sendable (SecretClassifier) throws(DownloadQueueError) -> StoredRequest
    let body: OutboxRequest.Body?

    /// Creates a download. Its file is written on the worker's machine, at the destination in the request.
    public init(_ download: DownloadRequest) {
        self.init(download, .download)
    }

    /// Creates an upload. Its file, and the journal beside it, are on the worker's machine. If several machines share
    /// the disk, one worker can resume the upload of another.
    public init(_ upload: UploadRequest) {
        self.init(upload, .upload)
    }

    /// Creates a request to send, with its `Idempotency-Key`.
    public init(_ request: OutboxRequest) {
        self.init(request, .outbox)
    }

    /// Creates a plain request, such as a GET. It has no `Idempotency-Key`: a POST is not sent again if it is unknown
    /// whether it has arrived.
    public init(_ request: URLRequest) {
        var outbox = OutboxRequest(request)
        if request.value(forHTTPHeaderField: OutboxRequest.keyField) == nil {
            outbox.request.setValue(nil, forHTTPHeaderField: OutboxRequest.keyField)
            let method = request.httpMethod ?? "GET"
            outbox.sendsAgainWhenUnknown = RetryPolicy().idempotentMethods.contains(method)
        }
        self.init(outbox, .plain)
    }

    private init(_ request: some StorableRequest, _ kind: WorkKind) {
        id = request.id
        self.kind = kind
        body = request.body
        dependencies = request.dependencies
        failedDependencyPolicy = request.failedDependencyPolicy
        priority = request.priority
        tag = request.tag
        stored = { classifier throws(DownloadQueueError) in
            try StoredRequest.storing(request, classifier: classifier).stored
        }
    }

    /// The maximum length of a body stored in the database, in bytes.
    static let longestBody: Int64 = 16 << 20
}

extension SharedRequest {
    /// Creates the entry to store.
    func item(_ classifier: SecretClassifier) throws(SharedQueueError) -> WorkItem {
        let request: StoredRequest
        do throws(DownloadQueueError) {
            request = try stored(classifier)
        } catch {
            switch error {
            case .secretInURL(let url): throw .secretInURL(url)
            case .unsuitableRequest(let reason): throw .unsuitableRequest(reason)
            default: throw .unsuitableRequest("\(error)")
            }
        }
        var item = WorkItem(id: id)
        item.kind = kind
        item.dependencies = dependencies
        item.method = request.method
        item.url = request.url.absoluteString
        item.host = Target(request.url)?.authority ?? ""
        item.payload = try WorkPayload(request: request, keepsHead: keepsResponseHeader, place: responseBody).text()
        item.body = try bytes()
        item.tag = try Self.name(tag ?? "", "tag")
        item.batch = try group.map { group throws(SharedQueueError) in try Self.name(group, "group") }
        item.uniqueKey = try uniqueKey.map { key throws(SharedQueueError) in try Self.name(key, "unique key") }
        item.uniquePeriod = uniquePeriod.map(Self.microseconds)
        item.priority = priority.rawValue
        item.trace = traceContext?.traceparent
        item.delay = notBefore.map { Self.microseconds($0.timeIntervalSinceNow) } ?? 0
        item.timeLimit = deadline.map { Self.microseconds($0.timeIntervalSinceNow) }
        item.standing.policy = failedDependencyPolicy
        item.standing.maximumAttempts = max(1, maximumAttempts)
        item.standing.sendsAgain = request.sendsAgain
        item.standing.kept = resultLifetime.map(Self.microseconds)
        return item
    }

    private func bytes() throws(SharedQueueError) -> [UInt8]? {
        switch body {
        case nil: return nil
        case .data(let data):
            guard data.count <= Self.longestBody else { throw .bodyTooLong(Int64(data.count), limit: Self.longestBody) }
            return Array(data)
        case .file(let url):
            do {
                let handle = try FileHandle(forReadingFrom: url)
                defer { try? handle.close() }
                let data = try handle.read(upToCount: Int(Self.longestBody) + 1) ?? Data()
                guard data.count <= Self.longestBody else {
                    throw SharedQueueError.bodyTooLong(Int64(data.count), limit: Self.longestBody)
                }
                return Array(data)
            } catch let error as SharedQueueError {
                throw error
            } catch {
                throw .unreadableBody(url, error.localizedDescription)
            }
        }
    }

    /// Returns a name, or throws an error if it is too long or contains a control character.
    static func name(_ text: String, _ what: String) throws(SharedQueueError) -> String {
        guard text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F }), text.utf8.count <= 800 else {
            throw .unsuitableRequest("The \(what) contains a control character or has more than 800 bytes.")
        }
        return text
    }

    static func microseconds(_ seconds: TimeInterval) -> Int64 {
        let value = seconds * 1e6
        return value > 0 ? Int64(min(value, 1e18)) : 0
    }
}

extension SharedRequest: OpaqueReflectable {
    package var shownChildren: KeyValuePairs<String, Any> { ["id": id] }
}

/// The part of a request that is not stored in columns.
struct WorkPayload: Codable {
    var request: StoredRequest
    var keepsHead: Bool
    /// The maximum length of a body stored in the entry; nil for none.
    var entryLimit: Int?
    var folder: String?
    var storage: String?
    /// The path in the folder, or the key in the storage.
    var path: String?
    /// The tag of an entry of a ``DownloadQueue``, which may be any text.
    var label: String?

    /// Creates the payload of an entry of a ``DownloadQueue``.
    init(request: StoredRequest, label: String?) {
        self.request = request
        keepsHead = false
        self.label = label
    }

    init(request: StoredRequest, keepsHead: Bool, place: SharedRequest.ResponseBody) throws(SharedQueueError) {
        self.request = request
        self.keepsHead = keepsHead
        switch place {
        case .discarded: break
        case .entry(let limit): entryLimit = max(0, min(limit, Int(SharedRequest.longestBody)))
        case .folder(let name, let path):
            try Self.check(path)
            folder = try SharedRequest.name(name, "folder")
            self.path = try SharedRequest.name(path, "path")
        case .objectStorage(let name, let key):
            guard !key.isEmpty else { throw .unsuitableRequest("The key of the object is empty.") }
            storage = try SharedRequest.name(name, "storage")
            path = try SharedRequest.name(key, "key")
        }
        let hasPlace = entryLimit != nil || folder != nil || storage != nil
        switch request.work {
        case .download where hasPlace:
            throw .unsuitableRequest("A download already has a destination: do not set responseBody.")
        case .upload where hasPlace:
            throw .unsuitableRequest(
                "The response to an upload cannot be stored: do not set responseBody.")
        default: break
        }
    }

    /// Throws an error if a path leads outside its folder.
    private static func check(_ path: String) throws(SharedQueueError) {
        guard !PathText.components(of: path).contains(where: { ["", ".", ".."].contains($0) }) else {
            throw .unsuitableRequest("The path \(path.debugDescription) points outside its folder.")
        }
    }

    func text() throws(SharedQueueError) -> String {
        do {
            return String(decoding: try JSONEncoder().encode(self), as: UTF8.self)
        } catch {
            throw .unsuitableRequest("\(error)")
        }
    }

    /// Decodes and validates a stored payload, which another program may have written.
    init(_ text: String) throws {
        self = try JSONDecoder().decode(Self.self, from: Data(text.utf8))
        if folder != nil, let path { try Self.check(path) }
        if case .download(let download) = request.work, !download.options.isSound {
            throw SharedQueueError.unsuitableRequest("The checksums cannot be read.")
        }
    }
}
