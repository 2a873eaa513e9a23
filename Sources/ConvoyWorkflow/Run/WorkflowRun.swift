import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// Runs the requests of a workflow: those that depend on each other one after the other, all others at the same time.
///
/// Each request has two operations in a queue: one that begins when those on which the request depends have ended, and one
/// that ends with it. What it sends are operations of `manager`, whose settings they get.
///
/// ```swift
/// let run = WorkflowRun(workflow) { event in print(event) }
/// let result = await run.run()
/// ```
public final class WorkflowRun: Sendable {
    /// How a workflow is run.
    public struct Options: Sendable {
        /// The directory of the outputs; by default the current one.
        public var directory = URL(fileURLWithPath: ".")
        /// Whether outputs replace files that are there.
        public var replacesFiles = false
        /// Whether nothing more is begun after a failure, unless the manifest says otherwise.
        public var stopsAfterFailure = false
        /// How many requests run at a time, unless the manifest says otherwise.
        public var jobs = 6
        /// The file that remembers which requests have succeeded; nil for none.
        public var journal: URL?
        /// Whether requests that have succeeded before, from the same inputs, are not sent again. Needs a journal.
        public var resumes = false
        /// How often a request is tried again, unless the manifest says otherwise.
        public var retryPolicy: RetryPolicy?
        /// Whether values are shown that are secrets by their names or places, such as a bearer token, a field
        /// `X-Api-Key` or a member `password`. The values of `secrets` are never shown.
        public var showsSecrets = false
        /// The `User-Agent` of requests that name none; nil for that of the library.
        public var userAgent: String?
        /// Whether the times of all requests are in the outcomes.
        public var collectsMetrics = false
        /// Gets every response that is looked at, before it is compared with what is expected. Called on any thread.
        public var received: (@Sendable (WorkflowResponse) -> Void)?
        /// Sets up each operation after it was made. Called on any thread, with the number of the operation, from 1.
        public var configure: (@Sendable (HTTPRequestOperation, Int) -> Void)?

        /// The default options.
        public init() {}
    }

    let plan: WorkflowPlan
    let options: Options
    /// The secrets of the run: mask everything with it that is printed or written.
    public let secrets: SecretMask
    /// Those that the manifest marks and that are known before anything is sent, and so are the same in every run.
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
        /// The request whose failure has stopped the run.
        var stopper: String?
        var operationCount = 0
    }

    /// A run.
    ///
    /// - Parameters:
    ///   - workflow: the workflow.
    ///   - options: how it is run.
    ///   - handler: is called for each event, one at a time, on any thread.
    /// - Throws: ``JournalInUseError`` if another run has the journal, or an error if it, or a file that the
    ///   manifest names, cannot be opened.
    public init(
        _ workflow: Workflow, options: Options = Options(),
        handler: @escaping @Sendable (WorkflowEvent) -> Void = { _ in }
    ) throws {
        plan = workflow.plan
        (self.options, self.handler) = (options, handler)
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

    /// The outputs with known names that are there already, and would stop their requests.
    public var existingOutputs: [URL] {
        guard !outputs.replaces else { return [] }
        return KnownOutputs.all(of: plan).compactMap { output in
            guard let file = (try? output.path.get()).map(outputs.file) else { return nil }
            return FileManager.default.fileExists(atPath: file.path) ? file : nil
        }
    }

    /// Runs the workflow to its end. To be called once.
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

    /// Cancels all requests; those that have not begun are skipped. Any thread.
    public func cancel() {
        state.withLock { $0.isCancelled = true }
        for node in nodes { node.cancel() }
    }

    /// The requests as they would be sent, for `convoy run --dry-run`: with `***` for secrets (see ``Options/showsSecrets``),
    /// and `${…}` where a value is not known before something was sent.
    public func preview() -> [String] {
        plan.requests.map { RequestPreview(plan: $0, values: values, secrets: secrets).text }
    }

    /// The values that a request has captured, with their secrets.
    package func captures(of id: String) -> [(name: String, value: JSON)] {
        guard let item = values.result(of: id)?.items.first,
            let plan = plan.requests.first(where: { $0.id == id })
        else { return [] }
        return plan.captures.compactMap { capture in item.captures[capture.name].map { (capture.name, $0) } }
    }

    // MARK: For its requests

    func report(_ event: WorkflowEvent) {
        // One at a time, and never two events of one request in the wrong order.
        reporting.withLock { _ in handler(event) }
    }

    private let reporting = Locked(false)

    /// Why a request must not begin any more; nil if it may.
    func refusal(of plan: RequestPlan) -> String? {
        state.withLock { state in
            if state.isCancelled { return "cancelled" }
            guard plan.when == nil, let stopper = state.stopper else { return nil }
            return "not sent, because \(quoted(stopper)) failed"
        }
    }

    var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// Notes a failure, which may stop the run.
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
