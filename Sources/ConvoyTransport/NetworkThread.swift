import CCurl
import Foundation

/// The thread on which transfers run: one run loop that drives libcurl.
///
/// All handles of libcurl live and die on it. A user's code never runs on it, with one exception that a program
/// chooses itself: the `URLConnectionDelegate` of a connection that it makes by hand.
public final class NetworkThread: Sendable {
    /// The thread that everything uses unless told otherwise. It starts with its first use and never ends.
    public static let shared = NetworkThread()

    private let start: Result<Engine, URLError>

    /// What runs on the thread.
    private struct Engine: @unchecked Sendable {
        let runLoop: NetworkRunLoop
        let multi: MultiHandle
    }

    /// Starts a thread of its own, with its own connections. It ends when nothing refers to it any more.
    public convenience init() { self.init(poller: .best) }

    package init(poller: PollerKind) {
        do {
            let runLoop = try NetworkRunLoop(poller: poller)
            let multi = try MultiHandle(runLoop: runLoop)
            let engine = Engine(runLoop: runLoop, multi: multi)
            let thread = Thread {
                // Foundation forgets a name that is set from outside, and Linux refuses one of more than 15 bytes.
                Thread.current.name = "Convoy.Network"
                engine.runLoop.run()
                engine.multi.close()
            }
            thread.stackSize = 1 << 20
            thread.start()
            start = .success(engine)
        } catch {
            start = .failure(
                URLError(
                    .cannotLoadFromNetwork,
                    userInfo: [NSLocalizedDescriptionKey: "The network thread could not start: \(error)"]))
        }
    }

    deinit {
        if case .success(let engine) = start { engine.runLoop.stop() }
    }

    /// Runs a block on the thread, after those handed over before it. Callable from any thread. The block must not
    /// wait for anything: every transfer waits with it.
    ///
    /// - Returns: false when the system could not give the thread what it needs (descriptors, memory), in which
    ///   case every connection fails with `URLError.cannotLoadFromNetwork`.
    @discardableResult
    public func perform(_ block: @escaping @Sendable () -> Void) -> Bool {
        guard case .success(let engine) = start else { return false }
        engine.runLoop.perform(block)
        return true
    }

    /// Whether the caller is on the thread, and may call libcurl: not from within one of its callbacks.
    var isFreeHere: Bool {
        guard case .success(let engine) = start else { return false }
        return engine.runLoop.isCurrent && !engine.multi.isInLibcurl
    }

    /// The driver of libcurl, for code that already runs on the thread.
    var multi: MultiHandle? {
        guard case .success(let engine) = start else { return nil }
        return engine.multi
    }

    var runLoop: NetworkRunLoop? {
        guard case .success(let engine) = start else { return nil }
        return engine.runLoop
    }

    /// Why the thread could not start, if it could not.
    var failure: URLError? {
        guard case .failure(let error) = start else { return nil }
        return error
    }
}
