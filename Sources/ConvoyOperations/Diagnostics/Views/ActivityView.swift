import ConvoySupport
import Foundation

/// What shows that something is under way, such as a spinner of any toolkit. The counterpart of AFNetworking's category of
/// `UIActivityIndicatorView`.
///
/// ```swift
/// extension Spinner: ActivityView {
///     func startAnimating() { start() }
///     func stopAnimating() { stop() }
/// }
/// spinner.setAnimatingWithState(of: operation)
/// ```
public protocol ActivityView: AnyObject {
    /// The operation is under way. Called on the queue of the binding.
    func startAnimating()
    /// The operation is paused, or has ended. Called on the queue of the binding.
    func stopAnimating()
}

extension ActivityView {
    /// Lets the view show whether an operation is under way: from its start to its end, and while it waits for a retry, but
    /// not while it is paused. A view shows one operation: an earlier binding ends.
    ///
    /// The view is told how the operation is now, and of its changes from then on; it is stopped when the operation has
    /// finished. It is called only where something has changed.
    ///
    /// - Parameters:
    ///   - operation: is not retained for this.
    ///   - queue: a serial queue, on which the view is called, and nowhere else; the main queue, unless given.
    /// - Returns: the binding, which need not be kept: it lasts until the operation has finished. The view is not retained.
    @discardableResult
    public func setAnimatingWithState(of operation: URLConnectionOperation, on queue: DispatchQueue = .main) -> ViewBinding {
        let view = WeakView<any ActivityView>(self)
        let isAnimating = Locked<Bool?>(nil)
        let binding = ViewBinding(of: self, .activity, on: queue) { [weak operation] in
            let isUnderWay = operation?.isUnderWay ?? false
            let isNews = isAnimating.withLock { isAnimating in
                defer { isAnimating = isUnderWay }
                return isAnimating != isUnderWay
            }
            guard isNews, let view = view.view else { return }
            if isUnderWay { view.startAnimating() } else { view.stopAnimating() }
        }
        // The observers keep the binding, and the operation keeps them until it has finished.
        let observation = operation.observe(.state, on: OperationQueues.processing) { _, change in
            if change.newValue == .finished { binding.finish() } else { binding.refresh() }
        }
        binding.setEnd { observation.invalidate() }
        if operation.isFinished { binding.finish() } else { binding.refresh() }
        return binding
    }

    /// The same for the task of a session.
    @_disfavoredOverload
    @discardableResult
    public func setAnimatingWithState(of request: some HTTPRequestHandle, on queue: DispatchQueue = .main) -> ViewBinding {
        setAnimatingWithState(of: request.operation as URLConnectionOperation, on: queue)
    }
}

extension URLConnectionOperation {
    /// Whether the work has begun, and goes on by itself.
    fileprivate var isUnderWay: Bool {
        let life = lifecycle.value
        return life.state == .executing || life.isBackingOff
    }
}
