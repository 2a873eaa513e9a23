/// `pauseAll()` and `resumeAll()` of a `RequestOperationQueue` reach it.
extension URLConnectionOperation: PausableOperation {}
