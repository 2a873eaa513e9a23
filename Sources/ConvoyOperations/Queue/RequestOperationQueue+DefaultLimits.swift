/// The queues that the library makes itself, for managers and for operations that are awaited.
extension RequestOperationQueue {
    static let defaultCount = 256
    static let defaultCountPerHost = 64

    /// A queue with the limits whose reasons `HTTPRequestOperationManager` gives.
    static func withDefaultLimits(named name: String) -> RequestOperationQueue {
        let queue = RequestOperationQueue()
        queue.name = name
        queue.maxConcurrentOperationCount = defaultCount
        queue.maxConcurrentOperationCountPerHost = defaultCountPerHost
        return queue
    }
}
