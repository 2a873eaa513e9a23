import ConvoySupport

extension TestServer {
    /// A barrier that a test opens, so that nothing has to rely on sleeping.
    ///
    /// Any number of responses may wait at a gate, without using threads. Once opened, it stays open. A gate can be
    /// opened from any thread.
    public final class Gate: Sendable {
        /// The closures to call; nil once the gate is open.
        private let waiting = Locked<[@Sendable () -> Void]?>([])

        /// A closed gate.
        public init() {}

        /// Whether it has been opened.
        public var isOpen: Bool { waiting.withLock { $0 == nil } }

        /// Opens the gate for everything that waits now or later. Opening it again has no effect.
        public func open() {
            let resumed = waiting.withLock { waiting in
                defer { waiting = nil }
                return waiting ?? []
            }
            for resume in resumed { resume() }
        }

        func whenOpen(_ resume: @escaping @Sendable () -> Void) {
            let isOpen = waiting.withLock { waiting in
                waiting?.append(resume)
                return waiting == nil
            }
            if isOpen { resume() }
        }
    }
}
