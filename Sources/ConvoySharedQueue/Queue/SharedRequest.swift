import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// A request that a ``SharedQueue`` keeps until a worker, on this machine or another one, has carried it out.
///
/// ```swift
/// var export = SharedRequest(URLRequest(url: url))
/// export.responseBody = .entry()
/// export.uniqueKey = "export-2026-11"
/// try await queue.enqueue(export)
/// ```
///
/// What is stored, and what is not, is as for a `DownloadQueue`: header fields that hold secrets are not, and a URL with a
/// secret is refused.
public struct SharedRequest: Sendable, Identifiable {
    /// Where the body of a response goes. The place of a download is its own.
    public enum ResponseBody: Sendable, Hashable {
        /// It is not kept.
        case discarded
        /// It is kept in the entry up to a length in bytes, and otherwise not. See ``SharedQueue/result(of:)``.
        case entry(maximumLength: Int = 65_536)
        /// It becomes a file below a folder that workers know by a name, at a relative path.
        case folder(String, path: String)
        /// It becomes an object in a storage that workers know by a name, under a key.
        case objectStorage(String, key: String)
    }

    /// The name of the entry, by which others depend on it.
    public let id: UUID
    /// The entries that must have ended before, in this queue or enqueued together with it.
    public var dependencies: Set<UUID>
    /// What happens when one of them has failed, or was cancelled.
    public var failedDependencyPolicy: FailedDependencyPolicy
    /// Which of the entries that could start comes first. Each step (`.high` is 4, `.veryHigh` is 8) counts like 15 minutes of
    /// waiting: so an entry of a low priority is not overtaken for ever.
    public var priority: Operation.QueuePriority
    /// By which workers choose; at most 800 bytes, without control characters. Not for secrets.
    public var tag: String?
    /// The group that it belongs to: see ``SharedQueue/enqueue(_:group:completion:)``.
    public var group: String?
    /// The same work is in the queue once: an entry with this key that has not failed takes the place of this one, as long as
    /// it, or its result, is there.
    public var uniqueKey: String?
    /// Before which time it does not start.
    public var notBefore: Date?
    /// By which time it fails unless its last attempt has begun. It is compared with the clock of the database.
    public var deadline: Date?
    /// After how many attempts it has failed for good; 25 by default. Attempts whose worker has ended count, too.
    public var maximumAttempts = 25
    /// For how long the entry and its result are kept once it is over, in seconds; nil for ever. A week by default.
    public var resultLifetime: TimeInterval? = 7 * 86_400
    /// Whether the header of the response is kept. True by default.
    public var keepsResponseHeader = true
    /// Where the body of the response goes. It is not kept by default.
    public var responseBody = ResponseBody.discarded
    /// The trace that the attempts belong to (W3C Trace Context); each is a span of its own. Nil by default.
    public var traceContext: TraceContext?

    let kind: WorkItem.Kind
    private let stored: @Sendable (SecretClassifier) throws(DownloadQueueError) -> StoredRequest
    let body: OutboxRequest.Body?

    /// A download. Its file is on the worker's machine, at the destination that the request says.
    public init(_ download: DownloadRequest) {
        self.init(download, .download)
    }

    /// An upload. Its file is on the worker's machine, and so is the journal beside it: where the file is on a disk that several
    /// machines have, one worker goes on where another has ended.
    public init(_ upload: UploadRequest) {
        self.init(upload, .upload)
    }

    /// A request that sends, with its `Idempotency-Key`.
    public init(_ request: OutboxRequest) {
        self.init(request, .outbox)
    }

    /// A plain request, such as a GET. It has no `Idempotency-Key`: a POST is not sent again where it is unknown whether it
    /// has arrived.
    public init(_ request: URLRequest) {
        var outbox = OutboxRequest(request)
        if request.value(forHTTPHeaderField: OutboxRequest.keyField) == nil {
            outbox.request.setValue(nil, forHTTPHeaderField: OutboxRequest.keyField)
            let method = request.httpMethod ?? "GET"
            outbox.sendsAgainWhenUnknown = RetryPolicy().idempotentMethods.contains(method)
        }
        self.init(outbox, .plain)
    }

    private init(_ request: some StorableRequest, _ kind: WorkItem.Kind) {
        (id, self.kind, body) = (request.id, kind, request.body)
        (dependencies, failedDependencyPolicy) = (request.dependencies, request.failedDependencyPolicy)
        (priority, tag) = (request.priority, request.tag)
        stored = { classifier throws(DownloadQueueError) in
            try StoredRequest.storing(request, classifier: classifier).stored
        }
    }

    /// How long a body may be that is stored in the database, in bytes.
    static let longestBody: Int64 = 16 << 20
}

extension SharedRequest {
    /// The entry that is stored.
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
        (item.kind, item.dependencies) = (kind, dependencies)
        (item.method, item.url) = (request.method, request.url.absoluteString)
        item.host = Target(request.url)?.authority ?? ""
        item.payload = try WorkPayload(request: request, keepsHead: keepsResponseHeader, place: responseBody).text()
        item.body = try bytes()
        item.tag = try Self.name(tag ?? "", "tag")
        item.batch = try group.map { group throws(SharedQueueError) in try Self.name(group, "group") }
        item.uniqueKey = try uniqueKey.map { key throws(SharedQueueError) in try Self.name(key, "unique key") }
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

    /// A name without what a database or a worker would stumble over.
    static func name(_ text: String, _ what: String) throws(SharedQueueError) -> String {
        guard text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F }), text.utf8.count <= 800 else {
            throw .unsuitableRequest("Its \(what) has a control character, or more than 800 bytes.")
        }
        return text
    }

    static func microseconds(_ seconds: TimeInterval) -> Int64 {
        let value = seconds * 1e6
        return value > 0 ? Int64(min(value, 1e18)) : 0
    }
}

extension SharedRequest: CustomReflectable {
    /// The name alone: a request may hold secrets.
    public var customMirror: Mirror { Mirror(self, children: ["id": id]) }
}

/// What is stored of a request beside its columns.
struct WorkPayload: Codable {
    var request: StoredRequest
    var keepsHead: Bool
    /// The longest body that is kept in the entry; nil for none.
    var entryLimit: Int?
    var folder: String?
    var storage: String?
    /// The path in the folder, or the key in the storage.
    var path: String?

    init(request: StoredRequest, keepsHead: Bool, place: SharedRequest.ResponseBody) throws(SharedQueueError) {
        (self.request, self.keepsHead) = (request, keepsHead)
        switch place {
        case .discarded: break
        case .entry(let limit): entryLimit = max(0, min(limit, Int(SharedRequest.longestBody)))
        case .folder(let name, let path):
            try Self.check(path)
            (folder, self.path) = (try SharedRequest.name(name, "folder"), try SharedRequest.name(path, "path"))
        case .objectStorage(let name, let key):
            guard !key.isEmpty else { throw .unsuitableRequest("The key of its object is empty.") }
            (storage, path) = (try SharedRequest.name(name, "storage"), try SharedRequest.name(key, "key"))
        }
        let hasPlace = entryLimit != nil || folder != nil || storage != nil
        switch request.work {
        case .download where hasPlace:
            throw .unsuitableRequest("A download has a place of its own, and no other one.")
        case .upload where hasPlace: throw .unsuitableRequest("The response to an upload is not kept.")
        default: break
        }
    }

    /// Throws unless a path stays below its folder.
    private static func check(_ path: String) throws(SharedQueueError) {
        guard !PathText.components(of: path).contains(where: { ["", ".", ".."].contains($0) }) else {
            throw .unsuitableRequest("The path \(path.debugDescription) does not stay below its folder.")
        }
    }

    func text() throws(SharedQueueError) -> String {
        do {
            return String(decoding: try JSONEncoder().encode(self), as: UTF8.self)
        } catch {
            throw .unsuitableRequest("\(error)")
        }
    }

    /// Others may have written the text.
    init(_ text: String) throws {
        self = try JSONDecoder().decode(Self.self, from: Data(text.utf8))
        if folder != nil, let path { try Self.check(path) }
        if case .download(let download) = request.work, !download.options.isSound {
            throw SharedQueueError.unsuitableRequest("Its checksums cannot be read.")
        }
    }
}
