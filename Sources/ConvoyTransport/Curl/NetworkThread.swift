import CCurl
import ConvoySupport
import Foundation
import Synchronization

/// The thread on which transfers run, with a run loop that drives libcurl.
///
/// All libcurl handles are used only on this thread or, while it sleeps, by a thread that starts a transfer. User code
/// does not run on it.
package final class NetworkThread: Sendable {
    /// The default thread. It starts on first use and never ends.
    package static let shared = NetworkThread()

    /// Whether the caller is on a network thread or acts for one, and must run no user code.
    package static var isCurrent: Bool { DeferredWakeups.current != nil }

    /// The objects that run on the thread.
    private final class Engine: @unchecked Sendable {
        let runLoop: NetworkRunLoop
        let multi: MultiHandle

        init(runLoop: NetworkRunLoop, multi: MultiHandle) {
            self.runLoop = runLoop
            self.multi = multi
        }
    }

    /// The thread for transfers that may block, such as Negotiate waiting for a KDC.
    package static let blocking = NetworkThread(mayBlock: true)

    /// Whether transfers may block the thread, which delays only transfers of the same kind.
    package let mayBlock: Bool

    private struct Start {
        /// The engine, retained from its creation until this object is released.
        var engine: Engine?
        /// The error of the last failed attempt. It is kept after a later success, because callers may still read it.
        var failure: URLError?
    }

    private let stackSize: Int
    private let start = Locked(Start())
    /// The address of the engine, so that callers need only one atomic read.
    private let running = Atomic<UInt>(0)

    /// Creates a separate thread with its own connections. The thread starts on first use and ends when the last
    /// reference to this object is released.
    package init(stackSize: Int = 1 << 20, mayBlock: Bool = false) {
        self.mayBlock = mayBlock
        self.stackSize = stackSize
    }

    deinit { engine?.runLoop.stop() }

    /// Runs a block on the thread, after earlier blocks. Can be called from any thread. The block must not block,
    /// because every transfer would wait for it.
    ///
    /// - Returns: False if the system denies a resource that the thread needs (descriptors, memory, the thread itself).
    ///   Connections then fail with `URLError.cannotLoadFromNetwork`. The next use tries again.
    @discardableResult
    package func perform(_ block: @escaping @Sendable () -> Void) -> Bool {
        guard let engine = engine ?? startedEngine() else { return false }
        engine.runLoop.perform(block)
        return true
    }

    /// Runs a task on the thread, after earlier blocks, or on the calling thread if this thread sleeps and no transfer is
    /// running. See `NetworkRunLoop.performInPlace(_:)`.
    @discardableResult
    func begin(_ task: LoopTask) -> Bool {
        guard let engine = engine ?? startedEngine() else { return false }
        if mayBlock { engine.runLoop.perform(task.run) } else { engine.runLoop.performInPlace(task) }
        return true
    }

    /// Whether the caller is on the thread and not inside a libcurl callback, so that it may call libcurl.
    var isFreeHere: Bool {
        withEngine { $0.runLoop.isCurrent && !$0.multi.isInLibcurl } ?? false
    }

    /// The libcurl driver, for code that already runs on the thread.
    var multi: MultiHandle? { withEngine { $0.multi } }

    var runLoop: NetworkRunLoop? { withEngine { $0.runLoop } }

    /// The time of the run loop's current turn; nil before the thread has started. Used on the thread only.
    var turnTime: MonotonicTime? { withEngine { $0.runLoop.turnTime } }

    /// The reason why the last attempt to start the thread failed.
    package var failure: URLError? { start.withLock { $0.failure } }

    // MARK: Starting

    private var engine: Engine? { withEngine { $0 } }

    /// Calls a function with the engine, which this object retains; returns nil before the thread has started.
    private func withEngine<Result>(_ body: (Engine) -> Result) -> Result? {
        UnsafeRawPointer(bitPattern: running.load(ordering: .acquiring))
            .map { Unmanaged<Engine>.fromOpaque($0)._withUnsafeGuaranteedRef(body) }
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
                    userInfo: [NSLocalizedDescriptionKey: "The network thread failed to start: \(error)"])
                return nil
            }
        }
    }

    /// The first Dispatch timer, set early so that Dispatch opens the descriptors for its timers. If no descriptor is
    /// left when it does so, Dispatch terminates the program.
    private static let timersOfDispatch: Void = DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) {}

    private func startEngine() throws -> Engine {
        DescriptorLimit.raise
        Self.timersOfDispatch
        let runLoop = try NetworkRunLoop()
        let engine = Engine(runLoop: runLoop, multi: try MultiHandle(runLoop: runLoop))
        do throws(SystemError) {
            try SystemThread.start(name: "Convoy.Network", stackSize: stackSize) {
                engine.multi.enterThread()
                engine.runLoop.run()
                engine.multi.close()
                engine.multi.leaveThread()
            }
        } catch {
            engine.multi.close()
            throw RunLoopError(call: "pthread_create", number: error.code)
        }
        return engine
    }
}

extension NetworkThread: OpaqueReflectable {}

/// Access to the shared network thread, for the wake-up benchmark.
@_spi(Benchmarks)
public enum NetworkThreadWake {
    /// Runs a short block on the shared network thread.
    public static func perform(_ block: @escaping @Sendable () -> Void) { NetworkThread.shared.perform(block) }
}
