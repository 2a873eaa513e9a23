import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// A run of the requests of a workflow. Dependent requests run one after the other, independent requests concurrently.
///
/// Each request has two operations in a queue: one that starts when its dependencies have ended, and one that finishes with
/// the request. The requests themselves are operations of ``manager`` and use its settings.
///
/// ```swift
/// let run = WorkflowRun(workflow) { event in print(event) }
/// let result = await run.run()
/// ```
public final class WorkflowRun: Sendable {
    /// The options of a run.
    public struct Options: Sendable {
        /// The output directory. The default is the current directory.
        public var directory = URL(fileURLWithPath: ".")
        /// Whether outputs replace existing files.
        public var replacesFiles = false
        /// Whether to start no further requests after a failure, unless the manifest specifies otherwise.
        public var stopsAfterFailure = false
        /// The maximum number of concurrent requests, unless the manifest specifies otherwise.
        public var jobs = 6
        /// The file that records which requests have succeeded, or nil to keep no record.
        public var journal: URL?
        /// Whether to skip requests that succeeded in an earlier run with the same inputs. Requires a journal.
        public var resumes = false
        /// The retry policy of requests, unless the manifest specifies otherwise.
        public var retryPolicy: RetryPolicy?
        /// Whether to show values that are secrets by their names or positions, such as a bearer token, a field `X-Api-Key`
        /// or a member `password`. The values of `secrets` are never shown.
        public var showsSecrets = false
        /// The default `User-Agent`, or nil for that of the library.
        public var userAgent: String?
        /// Whether outcomes contain the metrics of all requests.
        public var collectsMetrics = false
        /// A closure that receives each examined response before its expectations are checked. Called on any thread.
        package var received: (@Sendable (WorkflowResponse) -> Void)?
        /// A closure that configures each new operation, with the operation's number, from 1. Called on any thread.
        public var configure: (@Sendable (HTTPRequestOperation, Int) -> Void)?

        /// Creates the default options.
        public init() {}
    }

    let plan: WorkflowPlan
    let options: Options
    /// The secrets of the run. Use this mask for everything that is printed or written.
    package let secrets: SecretMask
    /// The marked secrets that are known before anything is sent, and are therefore the same in every run.
    let earlySecrets: SecretMask
    /// The servers that may receive secrets.
    let servers: SecretServers
    /// The manager of the requests.
    public let manager: HTTPRequestOperationManager
    let values: RunValues
    let outputs: OutputDirectory
    let journal: Journal?
    let stores: RunStores
    private let handler: @Sendable (WorkflowEvent) -> Void
    private let nodes: [RequestNode]
    private let state = Locked(State())

    private struct State {
        var isCancelled = false
        /// The request whose failure stopped the run.
        var stopper: String?
        var operationCount = 0
    }

    /// Creates a run.
    ///
    /// - Parameters:
    ///   - workflow: The workflow to run.
    ///   - options: The options of the run.
    ///   - handler: Called for each event, serially, on any thread.
    /// - Throws: ``JournalInUseError`` if another run uses the journal, or an error if the journal, or a file that the
    ///   manifest names, cannot be opened.
    public init(
        _ workflow: Workflow, options: Options = Options(),
        handler: @escaping @Sendable (WorkflowEvent) -> Void = { _ in }
    ) throws {
        plan = workflow.plan
        self.options = options
        self.handler = handler
        values = RunValues(plan)
        outputs = OutputDirectory(options.directory, replaces: options.replacesFiles || options.resumes)
        stores = try RunStores(plan)
        journal = try options.journal.map { try Journal(file: $0, keepsOld: options.resumes) }
        manager = HTTPRequestOperationManager(baseURL: plan.baseURL)
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = plan.jobs ?? options.jobs
        if let limit = plan.perHost { queue.maxConcurrentOperationCountPerHost = limit }
        if let rate = plan.perSecond { queue.maximumStartRatePerHost = StartRate(perSecond: rate) }
        manager.operationQueue = queue
        manager.completionQueue = DispatchQueue(label: "convoy.workflow")
        secrets = workflow.secrets(hidesNamed: !options.showsSecrets)
        earlySecrets = SecretMask()
        earlySecrets.add(plan.secretValues)
        servers = SecretServers(plan)
        nodes = plan.requests.map { RequestNode($0) }
    }

    /// The existing files at known output paths, which would make their requests fail.
    public var existingOutputs: [URL] {
        guard !outputs.replaces else { return [] }
        return KnownOutputs.all(of: plan).compactMap { output in
            guard let file = (try? output.path.get()).map(outputs.file) else { return nil }
            return FileManager.default.fileExists(atPath: file.path) ? file : nil
        }
    }

    /// Runs the workflow to completion. Call this method only once.
    public func run() async -> WorkflowResult {
        let began = Date(), clock = ContinuousClock.now
        let graph = RequestOperationQueue()
        graph.maxConcurrentOperationCount = OperationQueue.defaultMaxConcurrentOperationCount
        let byID = Dictionary(nodes.map { ($0.plan.id, $0) }, uniquingKeysWith: { first, _ in first })
        await withCheckedContinuation { continuation in
            let last = BlockOperation { continuation.resume() }
            var operations: [Operation] = [last]
            for node in nodes {
                let begin = BlockOperation { [self] in node.begin(in: self) { graph.addOperation(node.end) } }
                for id in node.plan.dependencies { if let other = byID[id] { begin.addDependency(other.end) } }
                last.addDependency(node.end)
                operations.append(begin)
            }
            graph.addOperations(operations, waitUntilFinished: false)
        }
        await journal?.close()
        var result = WorkflowResult()
        result.storeFailures = await stores.save()
        result.began = began
        result.seconds = (ContinuousClock.now - clock).inSeconds
        result.outcomes = nodes.flatMap { values.result(of: $0.plan.id)?.items.map(\.outcome) ?? [] }
        return result
    }

    /// Cancels all requests and skips those that have not started. May be called on any thread.
    public func cancel() {
        state.withLock { $0.isCancelled = true }
        for node in nodes { node.cancel() }
    }

    /// Returns the requests as they would be sent, for `convoy run --dry-run`, with `***` for secrets (see
    /// ``Options/showsSecrets``) and `${…}` for values that are not known in advance.
    public func preview() -> [String] {
        plan.requests.map { RequestPreview(plan: $0, values: values, secrets: secrets).text }
    }

    /// Returns the values that a request has captured, including secrets.
    package func captures(of id: String) -> [(name: String, value: JSON)] {
        guard let item = values.result(of: id)?.items.first,
            let plan = plan.requests.first(where: { $0.id == id })
        else { return [] }
        return plan.captures.compactMap { capture in item.captures[capture.name].map { (capture.name, $0) } }
    }

    // MARK: For its requests

    func report(_ event: WorkflowEvent) {
        // Call the handler serially, so that the events of one request are never reordered.
        reporting.withLock { _ in handler(event) }
    }

    private let reporting = Locked(false)

    /// Returns the reason why a request must not start anymore, or nil if the request may start.
    func refusal(of plan: RequestPlan) -> String? {
        state.withLock { state in
            if state.isCancelled { return "cancelled" }
            guard plan.when == nil, let stopper = state.stopper else { return nil }
            return "not sent, because \(quoted(stopper)) failed"
        }
    }

    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// Records a failure, which may stop the run.
    func failed(_ plan: RequestPlan) {
        guard plan.onFailure == .stop || (plan.onFailure == nil && options.stopsAfterFailure) else { return }
        state.withLock { if $0.stopper == nil { $0.stopper = plan.id } }
        for node in nodes where node.plan.when == nil && node.plan.id != plan.id { node.cancel() }
    }

    func nextNumber() -> Int {
        state.withLock { state in
            state.operationCount += 1
            return state.operationCount
        }
    }

    func node(_ id: String) -> RequestNode? { nodes.first { $0.plan.id == id } }
}

extension Duration {
    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
