import ConvoyOperations
import ConvoySupport
import Foundation

/// A binding of a view to an operation. It lasts until the operation has finished and does not have to be stored; it
/// retains neither the view nor the operation.
///
/// The view is called on one queue, only as often as the queue can keep up; intermediate changes are skipped.
public final class ViewBinding: Sendable {
    /// The aspect of an operation that a view shows. A view shows one operation for each aspect.
    enum Aspect: Hashable { case activity, progress }

    private struct Place: Hashable {
        let view: ObjectIdentifier
        let kind: Aspect
    }

    private struct Bound {
        weak var binding: ViewBinding?
    }

    private struct State {
        var update: (@Sendable () -> Void)?
        /// A closure that ends the observation of changes.
        var end: (@Sendable () -> Void)?
        /// Whether an update is scheduled.
        var isPending = false
        var isOver = false
    }

    /// The bindings of all views, so that binding a view again ends the earlier binding.
    private static let all = Locked<[Place: Bound]>([:])

    private let place: Place
    private let queue: DispatchQueue
    private let state: Locked<State>

    /// - Parameters:
    ///   - view: The view, which is not retained.
    ///   - queue: The queue on which `update` is called.
    ///   - update: A closure that shows the operation's current state. It is released when the binding ends.
    init(of view: AnyObject, _ kind: Aspect, on queue: DispatchQueue, update: @escaping @Sendable () -> Void) {
        place = Place(view: ObjectIdentifier(view), kind: kind)
        self.queue = queue
        state = Locked(State(update: update))
        let (place, own) = (place, Bound(binding: self))
        let earlier = Self.all.withLock { all in
            defer { all[place] = own }
            return all[place]?.binding
        }
        earlier?.invalidate()
    }

    deinit { leave() }

    /// Whether the view is no longer updated, because it has shown the end of the operation or the binding was ended.
    public var isOver: Bool { state.withLock { $0.isOver } }

    /// Ends the binding, and leaves the view unchanged. After this returns, no new call of the view begins, but a
    /// running one may continue.
    public func invalidate() {
        let old = state.withLock { state in
            defer { state = State(update: nil, end: nil, isPending: false, isOver: true) }
            return state
        }
        old.end?()
        leave()
    }

    /// Sets the closure that ends the observation of changes.
    func setEnd(_ end: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            if !state.isOver { state.end = end }
            return state.isOver
        }
        if isOver { end() }
    }

    /// Schedules an update of the view.
    func refresh() {
        let isFirst = state.withLock { state in
            guard !state.isOver, !state.isPending else { return false }
            state.isPending = true
            return true
        }
        guard isFirst else { return }
        queue.async { [self] in
            let update = state.withLock { state in
                state.isPending = false
                return state.update
            }
            update?()
        }
    }

    /// Updates the view one last time, because the operation has finished.
    func finish() {
        queue.async { [self] in
            state.withLock { $0.update }?()
            invalidate()
        }
    }

    private func leave() {
        let (place, own) = (place, ObjectIdentifier(self))
        Self.all.withLock { all in
            guard let bound = all[place] else { return }
            // During `deinit`, the weak reference to this object is nil.
            if bound.binding.map({ ObjectIdentifier($0) == own }) ?? true { all[place] = nil }
        }
    }
}

/// A weak reference to a view that is used only on the queue of its binding.
struct WeakView<View>: @unchecked Sendable {
    private weak var object: AnyObject?

    init(_ view: View) { object = view as AnyObject }

    /// The view, if it still exists.
    var view: View? { object as? View }
}

/// A view that shows activity, such as a spinner of any toolkit. The counterpart of AFNetworking's category on
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
    /// Called on the queue of the binding when the operation is running.
    func startAnimating()
    /// Called on the queue of the binding when the operation is paused or has ended.
    func stopAnimating()
}

extension ActivityView {
    /// Shows in the view whether an operation is running: from its start to its end, including waits for retries, but
    /// not while it is paused. A view shows one operation: an earlier binding ends.
    ///
    /// The view is called with the current state if the operation is running, and after each change; it is stopped when
    /// the operation has finished.
    ///
    /// - Parameters:
    ///   - operation: The operation, which the binding does not retain.
    ///   - queue: A serial queue, the only one on which the view is called; the main queue by default.
    /// - Returns: The binding, which does not have to be stored: it lasts until the operation has finished. The view is
    ///   not retained.
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
        // The observers retain the binding, and the operation retains the observers until it has finished.
        let observation = operation.observe(.state, on: OperationQueues.processing) { _, change in
            if change.newValue == .finished { binding.finish() } else { binding.refresh() }
        }
        binding.setEnd { observation.invalidate() }
        if operation.isFinished { binding.finish() } else { binding.refresh() }
        return binding
    }

    /// Shows in the view whether the task of a session is running.
    @_disfavoredOverload
    @discardableResult
    public func setAnimatingWithState(of request: some HTTPRequestHandle, on queue: DispatchQueue = .main) -> ViewBinding {
        setAnimatingWithState(of: request.operation as URLConnectionOperation, on: queue)
    }
}

/// A view that shows the progress of a transfer, such as a bar of any toolkit. The counterpart of AFNetworking's
/// category on `UIProgressView`.
///
/// ```swift
/// extension Bar: TransferProgressView {
///     func setProgress(_ fraction: Double?, of transfer: TransferProgress) { value = fraction ?? 0 }
/// }
/// bar.setProgressWithDownloadProgress(of: operation)
/// ```
public protocol TransferProgressView: AnyObject {
    /// Called on the queue of the binding when bytes have been transferred.
    ///
    /// - Parameters:
    ///   - fraction: The fraction of the bytes of one direction, from 0 to 1; nil while the total is unknown.
    ///   - transfer: The bytes of both directions.
    func setProgress(_ fraction: Double?, of transfer: TransferProgress)
}

extension TransferProgressView {
    /// Shows in the view how much of the response body has been received. A view shows one transfer: an earlier binding
    /// ends.
    ///
    /// The view is called with the current progress, as bytes are received, and again when the operation has finished,
    /// before the operation's handlers if they use the same serial queue. While the queue is busy, intermediate values
    /// are skipped.
    ///
    /// - Parameters:
    ///   - operation: The operation, which the binding does not retain.
    ///   - queue: A serial queue, the only one on which the view is called; the main queue by default.
    /// - Returns: The binding, which does not have to be stored: it lasts until the operation has finished. The view is
    ///   not retained.
    @discardableResult
    public func setProgressWithDownloadProgress(
        of operation: URLConnectionOperation, on queue: DispatchQueue = .main
    ) -> ViewBinding {
        bind(to: operation, on: queue) { TransferProgress.share($0.bytesReceived, of: $0.bytesExpectedToReceive) }
    }

    /// Shows in the view how much of the request body has been sent. Otherwise, this method behaves like
    /// `setProgressWithDownloadProgress(of:on:)`.
    @discardableResult
    public func setProgressWithUploadProgress(
        of operation: URLConnectionOperation, on queue: DispatchQueue = .main
    ) -> ViewBinding {
        bind(to: operation, on: queue) { TransferProgress.share($0.bytesSent, of: $0.bytesExpectedToSend) }
    }

    /// Shows in the view how much of the response body of a session's task has been received.
    @_disfavoredOverload
    @discardableResult
    public func setProgressWithDownloadProgress(
        of request: some HTTPRequestHandle, on queue: DispatchQueue = .main
    ) -> ViewBinding {
        setProgressWithDownloadProgress(of: request.operation as URLConnectionOperation, on: queue)
    }

    /// Shows in the view how much of the request body of a session's task has been sent.
    @_disfavoredOverload
    @discardableResult
    public func setProgressWithUploadProgress(
        of request: some HTTPRequestHandle, on queue: DispatchQueue = .main
    ) -> ViewBinding {
        setProgressWithUploadProgress(of: request.operation as URLConnectionOperation, on: queue)
    }

    private func bind(
        to operation: URLConnectionOperation, on queue: DispatchQueue,
        _ fraction: @escaping @Sendable (TransferProgress) -> Double?
    ) -> ViewBinding {
        let view = WeakView<any TransferProgressView>(self)
        let newest = Locked(TransferProgress())
        let binding = ViewBinding(of: self, .progress, on: queue) {
            let progress = newest.withLock { $0 }
            view.view?.setProgress(fraction(progress), of: progress)
        }
        let end = operation.followProgress(
            ProgressFollower(
                move: { progress in
                    newest.withLock { $0 = progress }
                    binding.refresh()
                }, end: { binding.finish() }))
        binding.setEnd(end)
        return binding
    }
}

extension TransferProgress {
    /// Returns a fraction from 0 to 1; nil if the total is unknown. An empty body is complete.
    fileprivate static func share(_ bytes: Int64, of expected: Int64?) -> Double? {
        guard let expected else { return nil }
        return expected > 0 ? min(1, max(0, Double(bytes) / Double(expected))) : 1
    }
}
