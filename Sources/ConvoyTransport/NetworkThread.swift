import CCurl
import ConvoySupport
import Foundation
import Synchronization

/// The thread on which transfers run: one run loop that drives libcurl.
///
/// All handles of libcurl live and die on it. A user's code never runs on it, with one exception that a program
/// chooses itself: the `URLConnectionDelegate` of a connection that it makes by hand.
public final class NetworkThread: Sendable {
    /// The thread that everything uses unless told otherwise. It starts with its first use and never ends.
    public static let shared = NetworkThread()

    /// What runs on the thread.
    private final class Engine: @unchecked Sendable {
        let runLoop: NetworkRunLoop
        let multi: MultiHandle

        init(runLoop: NetworkRunLoop, multi: MultiHandle) {
            self.runLoop = runLoop
            self.multi = multi
        }
    }

    private struct Start {
        /// Held here, once there is one, as long as the thread's object is there.
        var engine: Engine?
        /// Why the last attempt without success had none. Stays: whoever failed by it may ask later.
        var failure: URLError?
    }

    private let poller: PollerKind
    private let stackSize: Int
    private let start = Locked(Start())
    /// The same engine, for those who come later: a request costs them one atomic read.
    private let running = Atomic<UInt>(0)

    /// What a higher layer keeps for the thread, and which holds the thread.
    package let companion = Locked(WeakCompanion())

    package struct WeakCompanion: Sendable {
        package weak var object: (any AnyObject & Sendable)?
    }

    /// A thread of its own, with its own connections. It starts with its first use, and ends when nothing refers to
    /// it any more.
    public convenience init() { self.init(poller: .best) }

    package init(poller: PollerKind, stackSize: Int = 1 << 20) {
        self.poller = poller
        self.stackSize = stackSize
    }

    deinit { engine?.runLoop.stop() }

    /// Runs a block on the thread, after those handed over before it. Callable from any thread. The block must not
    /// wait for anything: every transfer waits with it.
    ///
    /// - Returns: false when the system does not give the thread what it needs (descriptors, memory, a thread), in
    ///   which case a connection fails with `URLError.cannotLoadFromNetwork`. The next use tries again.
    @discardableResult
    public func perform(_ block: @escaping @Sendable () -> Void) -> Bool {
        guard let engine = engine ?? startedEngine() else { return false }
        engine.runLoop.perform(block)
        return true
    }

    /// The same for a task.
    func perform(_ task: any HandoverTask) -> Bool {
        guard let engine = engine ?? startedEngine() else { return false }
        engine.runLoop.perform(task)
        return true
    }

    /// Whether the caller is on the thread, and may call libcurl: not from within one of its callbacks.
    var isFreeHere: Bool {
        guard let engine else { return false }
        return engine.runLoop.isCurrent && !engine.multi.isInLibcurl
    }

    /// The driver of libcurl, for code that already runs on the thread.
    var multi: MultiHandle? { engine?.multi }

    var runLoop: NetworkRunLoop? { engine?.runLoop }

    /// Why the thread could not start when that was last tried in vain.
    package var failure: URLError? { start.withLock { $0.failure } }

    // MARK: Starting

    private var engine: Engine? {
        UnsafeRawPointer(bitPattern: running.load(ordering: .acquiring))
            .map { Unmanaged<Engine>.fromOpaque($0).takeUnretainedValue() }
    }

    private func startedEngine() -> Engine? {
        start.withLock { start in
            if let engine = start.engine { return engine }
            do {
                let engine = try startEngine()
                start.engine = engine
                running.store(UInt(bitPattern: Unmanaged.passUnretained(engine).toOpaque()), ordering: .releasing)
                return engine
            } catch {
                start.failure = URLError(
                    .cannotLoadFromNetwork,
                    userInfo: [NSLocalizedDescriptionKey: "The network thread could not start: \(error)"])
                return nil
            }
        }
    }

    private func startEngine() throws -> Engine {
        let runLoop = try NetworkRunLoop(poller: poller)
        let engine = Engine(runLoop: runLoop, multi: try MultiHandle(runLoop: runLoop))
        do {
            try SystemThread.start(name: "Convoy.Network", stackSize: stackSize) {
                TransferMemory.adoptThread()
                engine.runLoop.run()
                engine.multi.close()
            }
        } catch {
            engine.multi.close()
            throw error
        }
        return engine
    }
}
