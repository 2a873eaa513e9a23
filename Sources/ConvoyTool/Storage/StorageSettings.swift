import Convoy
import ConvoyObjectStorage
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// The endpoint and the credentials of `convoy s3`, and the settings of its requests.
struct StorageSettings: Sendable {
    let transfers: TransferSettings
    private let endpoint: URL
    private let region: String
    private let addressing: ObjectStorage.Addressing?
    private let checksum: ObjectStorage.ChecksumField
    private let partSize: Int64
    private let parallel: Int
    private let credentials: ObjectStorageCredentialProvider
    private let manager: StorageManager

    init(_ options: Options, _ display: Display) throws(ToolError) {
        let environment = ProcessInfo.processInfo.environment
        func variable(_ names: String...) -> String? { names.lazy.compactMap { environment[$0] }.first { !$0.isEmpty } }
        let profile = try StorageCall.mapping { () throws(ObjectStorageError) in
            try StorageProfile(options.value("profile"))
        }
        let region =
            options.value("region") ?? variable("AWS_REGION", "AWS_DEFAULT_REGION") ?? profile.region ?? "us-east-1"
        let amazon = "https://s3.\(region).amazonaws.com\(region.hasPrefix("cn-") ? ".cn" : "")"
        let given = options.value("endpoint") ?? variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") ?? profile.endpoint
        let text = given ?? amazon
        guard let endpoint = URL(string: text), endpoint.host != nil else {
            throw options.usage("invalid endpoint '\(Printable.line(Shown.url(text)))': use a URL such as https://host:9000")
        }
        self.endpoint = endpoint
        self.region = region
        switch try options.choice("addressing") ?? profile.addressing {
        case "path": addressing = .path
        case "virtual": addressing = .virtualHost
        default: addressing = nil
        }
        switch try options.choice("body-checksum") {
        case "md5": checksum = .md5
        case "none": checksum = .none
        default: checksum = .sha256
        }
        let size = options.value("part-size")
        partSize = size.flatMap { SpeedOptions.rate($0) } ?? 16 << 20
        guard size == nil || (5 << 20)...(5 << 30) ~= partSize && size.flatMap({ SpeedOptions.rate($0) }) != nil else {
            throw options.usage("--part-size takes from 5Mi to 5Gi")
        }
        parallel = try options.integer("parallel", in: 1...64) ?? 4
        if let command = options.value("credential-command") {
            guard !command.isEmpty else { throw options.usage("--credential-command needs a command") }
            credentials = .command(command)
        } else if !options.has("profile"), variable("AWS_ACCESS_KEY_ID") != nil {
            credentials = .environment
        } else {
            credentials = try Self.credentials(of: profile)
        }
        let speed = try SpeedOptions(options)
        transfers = TransferSettings(
            speed: speed, routes: try RouteOptions(options), cookies: try CookieOptions(options, display),
            login: LoginOptions(options), trust: try TrustOptions(options),
            // Each transfer sends several requests, so their lines are numbered.
            trace: try TraceOptions(options, display, count: .max))
        manager = StorageManager(
            transfers, timeout: try options.seconds("timeout"), connections: speed.jobs * parallel + StorageFeed.ahead)
    }

    private static func credentials(of profile: StorageProfile) throws(ToolError) -> ObjectStorageCredentialProvider {
        do throws(ObjectStorageError) {
            return try profile.provider()
        } catch {
            throw .usage(
                "\(Printable.line(error.message)) Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use "
                    + "--credential-command")
        }
    }

    /// Returns the storage of a bucket.
    func storage(_ bucket: String) throws(ToolError) -> ObjectStorage {
        var configuration = ObjectStorage.Configuration(endpoint: endpoint, region: region, bucket: bucket)
        configuration.addressing = addressing ?? .automatic(for: endpoint, bucket: bucket)
        configuration.checksum = checksum
        configuration.partSize = partSize
        configuration.concurrentParts = parallel
        configuration.retryPolicy = transfers.speed.storagePolicy
        let made = configuration
        return try StorageCall.mapping { () throws(ObjectStorageError) in
            try ObjectStorage(made, credentials: credentials, manager: manager)
        }
    }
}

/// A manager that applies the options to every request of a storage.
final class StorageManager: HTTPRequestOperationManager, @unchecked Sendable {
    private let transfers: TransferSettings
    private let timeout: TimeInterval?
    private let count = Atomic<Int>(0)

    init(_ transfers: TransferSettings, timeout: TimeInterval?, connections: Int) {
        self.transfers = transfers
        self.timeout = timeout
        super.init(completionQueue: DispatchQueue(label: "convoy.storage"))
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = connections
        operationQueue = queue
    }

    override func makeOperation(request: URLRequest) -> HTTPRequestOperation {
        let operation = super.makeOperation(request: request)
        let number = count.add(1, ordering: .relaxed).newValue
        if let url = request.url {
            // This fails only for a URL with a login, which an endpoint cannot have.
            try? transfers.apply(to: operation, url, operation.connectionConfiguration, number: number, heard: { _ in })
        }
        transfers.speed.applyRates(to: operation)
        if let timeout { operation.idleTimeout = timeout > 0 ? timeout : nil }
        return operation
    }
}

/// Functions that call a storage.
enum StorageCall {
    /// Returns the result of a closure, and blocks until it is available. Must not be called on a thread of Swift's
    /// concurrency pool. The text of an error begins with the location.
    static func result<Value: Sendable>(
        about location: StorageLocation, _ body: @escaping @Sendable () async throws -> Value
    ) throws(ToolError) -> Value {
        do {
            return try AsyncCall.outcome(body).get()
        } catch {
            let cause = toolError(error)
            throw ToolError(text: "\(Printable.line(location.text)): \(cause.text)", status: cause.status)
        }
    }

    static func mapping<Value>(_ body: () throws(ObjectStorageError) -> Value) throws(ToolError) -> Value {
        do throws(ObjectStorageError) { return try body() } catch { throw toolError(error) }
    }

    static func toolError(_ error: any Error) -> ToolError {
        if let error = error as? ToolError { return error }
        let kind = FailureKind(error, statusCode: nil)
        let line = ErrorText.line(for: error)
        return kind == .usage ? .usage(line) : ToolError(text: line, status: kind == .other ? .failure : .failed(kind))
    }
}
