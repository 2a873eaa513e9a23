import ConvoySupport
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking

@testable import ConvoyDownloads
@testable import ConvoyOperations

/// The simulated download of a scenario, with files in its own directory, and checks at each step.
final class DownloadWorld: World, TransitionInterceptor, @unchecked Sendable {
    private let scenario: DownloadScenario
    private let handlers = DispatchQueue(label: "handlers")
    private var queue: RequestOperationQueue?
    private var operation: DownloadOperation?
    private var recorder: EventRecorder?
    private weak var token: Token?
    private let directory: URL
    private let file: URL
    private var replies: [DownloadScenario.Reply]
    private var version = 0
    private var isInQueue = false
    private var isStartedByHand = false
    private var wasCancelled = false
    private var handled = (success: 0, failure: 0, completion: 0)
    private var finishCount = 0

    private static let count = SharedCount()
    /// The SHA-256 of the first version.
    private static let digest = "15c32cfa73534b3c34a1244e4331e3757b34daf267f6a7322d471c849e3a5c65"
    private static let old = Data("old".utf8)
    private static let root = URL(
        fileURLWithPath: FileManager.default.fileExists(atPath: "/dev/shm") ? "/dev/shm" : NSTemporaryDirectory())

    /// A counter that numbers the directories of this process.
    private final class SharedCount: Sendable {
        private let value = Locked(0)
        func next() -> Int {
            value.withLock { value in
                value += 1
                return value
            }
        }
    }

    init(_ scenario: DownloadScenario, tells: Bool) {
        (self.scenario, replies) = (scenario, scenario.replies)
        directory = Self.root.appendingPathComponent(
            "convoy-simulation-\(ProcessInfo.processInfo.processIdentifier)-\(Self.count.next())", isDirectory: true)
        file = directory.appendingPathComponent("file")
        super.init(Machine(concurrent: [OperationQueues.processing]), tells: tells)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    override func setUp() {
        try? FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        if scenario.replaces { try? Self.old.write(to: file) }
        queue = RequestOperationQueue(clock: machine.clock)
        network.willConnect = { [unowned self] connection in
            check(connection)
            let reply = replies.isEmpty ? .whole : replies.removeFirst()
            if reply == .changed { version = 1 }
            let version = version
            return { reply.events(for: $0, version: version) }
        }
        let url = URL(string: "http://files.test/file") ?? URL(fileURLWithPath: "/")
        let operation = DownloadOperation(request: URLRequest(url: url), destination: file)
        self.operation = operation
        operation.change { values in
            values.holder.transport = network
            values.holder.clock = machine.clock
        }
        let clock = machine.clock
        operation.downloadSettings.withLock { $0.clock = { clock.now } }
        operation.completionQueue = handlers
        recorder = EventRecorder(of: operation)
        operation.segmentCount = scenario.segments
        operation.minimumSegmentLength = 8
        if scenario.replaces { operation.existingFilePolicy = .replace }
        if scenario.hasChecksum { operation.checksum = try? Checksum(.sha256, hexadecimal: Self.digest) }
        let wrong = try? Checksum(.sha256, hexadecimal: String(repeating: "0", count: 64))
        if scenario.hasWrongPieces, let wrong {
            operation.pieceChecksums = PieceChecksums(length: 22, checksums: [wrong, wrong, wrong])
        }
        var policy = RetryPolicy()
        (policy.initialDelay, policy.budget, policy.maximumGateDuration) = (0, nil, 0)
        operation.retryPolicy = policy
        if scenario.isLate { operation.setSupervisor(self) }
        let token = Token()
        self.token = token
        operation.setCompletionHandler(
            success: { [weak self] _, _ in withExtendedLifetime(token) { self?.handled.success += 1 } },
            failure: { [weak self] _, _ in withExtendedLifetime(token) { self?.handled.failure += 1 } })
        operation.completionBlock = { [weak self] in withExtendedLifetime(token) { self?.didComplete() } }
        for (index, calls) in scenario.users.enumerated() {
            machine.add(User(machine.makeThread("user \(index + 1)"), calls) { [unowned self] in perform($0) })
        }
    }

    // MARK: User actions

    private func perform(_ call: DownloadScenario.Call) {
        tell(call.rawValue)
        guard let operation else { return }
        switch call {
        case .add: add()
        case .start:
            guard !isInQueue else { return }
            operation.start()
            if operation.lifecycle.value.wasStarted { isStartedByHand = true }
        case .pause: operation.pause()
        case .resume: operation.resume()
        case .cancel:
            wasCancelled = true
            operation.cancel()
        case .suspend: queue?.isSuspended = true
        case .unsuspend: queue?.isSuspended = false
        }
    }

    private func add() {
        guard let operation, !isStartedByHand, !isInQueue else { return }
        isInQueue = true
        queue?.addOperation(operation)
    }

    override var isOver: Bool {
        handled.completion > 0 && operation?.isFinished != false && queue?.state.withLock { $0.isEmpty } != false
    }

    override var rest: String { "\(operation.map { "\($0.lifecycle.value)" } ?? ""), \(handled)" }

    override func bringToAnEnd(_ round: Int) {
        guard let operation else { return }
        queue?.isSuspended = false
        if !isStartedByHand { add() }
        operation.resume()
        if isStartedByHand { operation.start() }
        // A silent server never ends its response, so stop the download.
        if round > 1, scenario.replies.contains(.silent) {
            wasCancelled = true
            operation.cancel()
        }
    }

    func operation(
        _ operation: URLConnectionOperation, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void
    ) {
        if transition.new.state == .finished, transition.old.state != .finished { finishCount += 1 }
        machine.hold(proceed)
    }

    // MARK: Checks

    private func check(_ made: SimulatedConnection) {
        guard let operation else { return }
        let underWay = network.connections.filter { $0.isUnderWay && !$0.isCancelled }
        if underWay.count > scenario.segments { report("limit of segments", "\(underWay.count) at once") }
        if operation.isFinished { report("nothing after the end") }
        // Calls in progress may not have arrived here yet.
        guard !machine.isAnyHeld else { return }
        if operation.isCancelled { report("nothing after a cancel") }
        if operation.isPaused { report("a pause holds", "it connects") }
    }

    /// Checks the file at the destination: missing, old, or new and complete.
    private func checkFile(hasSucceeded: Bool) {
        let found = try? Data(contentsOf: file)
        let new = [0, 1].map(DownloadScenario.contents)
        if hasSucceeded {
            if !new.prefix(scenario.hasChecksum ? 1 : 2).contains(found ?? Data()) {
                report("whole bytes", "\(found?.count ?? -1)")
            }
        } else if let found, !(new.contains(found) && wasCancelled), !(scenario.replaces && found == Self.old) {
            report("the old file or the new one", String(decoding: found, as: UTF8.self))
        }
    }

    private func didComplete() {
        handled.completion += 1
        guard let operation else { return }
        if !operation.isFinished { report("completion comes last", "it has not finished") }
        if handled.success + handled.failure != 1 { report("completion comes last", "\(handled)") }
        if (operation.error != nil) != (handled.failure == 1) { report("the right handler", "\(handled)") }
        if operation.error == nil { checkFile(hasSucceeded: true) }
    }

    override func checkStep() {
        if handled.completion > 1 { report("handlers run once", "\(handled)") }
        if finishCount > 1 { report("it ends once") }
    }

    override func checkTheEnd() {
        guard let operation else { return }
        if handled.completion != 1 || handled.success + handled.failure != 1 { report("handlers run once", "\(handled)") }
        checkFile(hasSucceeded: operation.error == nil)
        if operation.isCancelled {
            if (operation.error as? URLError)?.code != .cancelled {
                report("an outcome", "\(String(describing: operation.error))")
            }
        } else if let error = operation.error {
            if (error as? URLError)?.code == .cancelled { report("an outcome", "it was not cancelled") }
            let fails: [DownloadScenario.Reply] = [.failure, .refused, .lost]
            let isExpected =
                scenario.replies.contains(where: fails.contains) || scenario.hasChecksum && version == 1
                || scenario.hasWrongPieces
            if !isExpected { report("an outcome", "\(error)") }
        } else {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
            if names != ["file"] { report("nothing but the file", "\(names)") }
        }
        if let text = recorder?.difference(of: operation) { report("metrics follow from events", text) }
        if queue?.queuedOperationCount != 0 { report("the queue is empty") }
        if token != nil { report("closures are released") }
    }

    override func checkThatNobodyHolds() {
        struct Weak { weak var object: AnyObject? }
        let download = Weak(object: operation?.download.withLock { $0 })
        let (weakOperation, weakQueue) = (Weak(object: operation), Weak(object: queue))
        operation = nil
        queue = nil
        if weakOperation.object != nil { report("nothing retains it") }
        if weakQueue.object != nil { report("nothing retains it", "the queue") }
        if download.object != nil { report("nothing retains it", "the work of the download") }
    }
}
