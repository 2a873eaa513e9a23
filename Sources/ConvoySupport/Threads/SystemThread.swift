import Foundation

/// Starts threads, and reports an error if the system refuses to create one.
///
/// Foundation's `Thread.start()` does not report this error, and the work is lost.
package enum SystemThread {
    private final class Launch {
        let name: String
        let body: @Sendable () -> Void
        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// Runs the body on a new thread, which ends when the body returns.
    ///
    /// - Parameters:
    ///   - name: The name of the thread, at most 15 bytes, the Linux limit.
    ///   - stackSize: The size of the stack, in bytes.
    /// - Throws: `SystemError` if the system cannot create another thread. The body is then released.
    package static func start(
        name: String, stackSize: Int, _ body: @escaping @Sendable () -> Void
    ) throws(SystemError) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        pthread_attr_setstacksize(&attributes, stackSize)
        let start = Unmanaged.passRetained(Launch(name: name, body: body))
        var thread = pthread_t()
        let failure = pthread_create(
            &thread, &attributes,
            { context in
                guard let context else { return nil }
                let start = Unmanaged<Launch>.fromOpaque(context).takeRetainedValue()
                // Writing to a pipe or TLS connection closed by the other side must fail with an error, and must not
                // terminate the program.
                var signals = sigset_t()
                sigemptyset(&signals)
                sigaddset(&signals, SIGPIPE)
                pthread_sigmask(SIG_BLOCK, &signals, nil)
                // Set the name on the thread itself, because Foundation overwrites a name set from another thread.
                Thread.current.name = start.name
                start.body()
                return nil
            }, start.toOpaque())
        guard failure != 0 else { return }
        start.release()
        throw SystemError(code: failure)
    }
}
