/// One who wants to know when the network has changed. Its functions are called on the watching thread, one at a time.
protocol NetworkListener: AnyObject, Sendable {
    /// The network has changed, or the listener is new. Asks for its paths at once: the finder is not used after that.
    func networkChanged(_ finder: PathFinder)

    /// The listener has asked to be called.
    func refresh(_ finder: PathFinder)
}
