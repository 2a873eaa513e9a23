import ConvoyOperations

extension EventFeed {
    /// Ends the source with an error, when the handlers have got what has come before. One that is paused stays so. Any
    /// thread.
    func fail(_ error: any Error) {
        let (connection, work, wait) = state.withLock { state -> (HTTPRequestOperation?, OwnWork?, Wait) in
            state.end.fatal = error
            // Where it only waits, nothing else would end it.
            guard state.phase == .waiting else { return (state.connection, nil, Wait()) }
            state.phase = .idle
            return (nil, state.work.take(), state.takeWait())
        }
        wait.end()
        connection?.cancel()
        work?.fail(finally: error)
    }
}
