import ConvoySupport

extension TestServer {
    /// A barrier that a test opens when it is time, so that nothing has to sleep and hope.
    ///
    /// Any number of responses may wait at one gate, at the cost of a socket each and no thread. Once open it stays
    /// open. A gate may be opened from any thread.
    public final class Gate: Sendable {
        /// What waits; nil once the gate is open.
        private let waiting = Locked<[@Sendable () -> Void]?>([])

        /// A closed gate.
        public init() {}

        /// Whether it has been opened.
        public var isOpen: Bool { waiting.withLock { $0 == nil } }

        /// Lets everything through that waits and everything that comes. Opening twice does nothing more.
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
