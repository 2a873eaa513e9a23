import ConvoySupport
import Foundation

/// Binds a view to an operation. It lasts until the operation has finished, and need not be stored; it retains neither
/// the view nor the operation.
///
/// The view is called on one queue, no more often than that has time for; intermediate changes are skipped.
public final class ViewBinding: Sendable {
    /// What a view shows: one operation for each kind.
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
        /// Ends the observation of changes.
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
    ///   - view: not retained.
    ///   - queue: where `update` is called.
    ///   - update: shows the operation's current state. Released at the end.
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

    /// Whether the view is called no more: it has shown the end of the operation, or the binding was ended.
    public var isOver: Bool { state.withLock { $0.isOver } }

    /// Ends the binding, and leaves the view unchanged. No call of the view begins after this has returned, but a
    /// running one may continue.
    public func invalidate() {
        let old = state.withLock { state in
            defer { state = State(update: nil, end: nil, isPending: false, isOver: true) }
            return state
        }
        old.end?()
        leave()
    }

    /// Sets what ends the observation of changes.
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

    /// Updates the view a last time, as the operation has finished.
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
            // A weak reference to an object in `deinit` is nil; it counts as this one.
            if bound.binding.map({ ObjectIdentifier($0) == own }) ?? true { all[place] = nil }
        }
    }
}

/// A view that is not retained, and only used on the queue of its binding.
struct WeakView<View>: @unchecked Sendable {
    private weak var object: AnyObject?

    init(_ view: View) { object = view as AnyObject }

    /// The view, as long as it exists.
    var view: View? { object as? View }
}

/// A view that shows activity, such as a spinner of any toolkit. The counterpart of AFNetworking's category of
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
    /// The operation is running. Called on the queue of the binding.
    func startAnimating()
    /// The operation is paused, or has ended. Called on the queue of the binding.
    func stopAnimating()
}

extension ActivityView {
    /// Shows in the view whether an operation is running: from its start to its end, and while it waits for a retry,
    /// but not while it is paused. A view shows one operation: an earlier binding ends.
    ///
    /// The view is called with the current state if it is running, and after each change; it is stopped when the
    /// operation has finished.
    ///
    /// - Parameters:
    ///   - operation: is not retained for this.
    ///   - queue: a serial queue, on which the view is called, and nowhere else; the main queue, unless given.
    /// - Returns: the binding, which need not be kept: it lasts until the operation has finished. The view is not
    ///   retained.
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
    /// Whether the work has begun, and continues by itself.
    fileprivate var isUnderWay: Bool {
        let life = lifecycle.value
        return life.state == .executing || life.isBackingOff
    }
}

/// A view that shows the progress of a transfer, such as a bar of any toolkit. The counterpart of AFNetworking's
/// category of `UIProgressView`.
///
/// ```swift
/// extension Bar: TransferProgressView {
///     func setProgress(_ fraction: Double?, of transfer: TransferProgress) { value = fraction ?? 0 }
/// }
/// bar.setProgressWithDownloadProgress(of: operation)
/// ```
public protocol TransferProgressView: AnyObject {
    /// The transfer has moved. Called on the queue of the binding.
    ///
    /// - Parameters:
    ///   - fraction: the share of the bytes of one direction, from 0 to 1; nil as long as it is unknown how many there will be.
    ///   - transfer: the bytes of both directions.
    func setProgress(_ fraction: Double?, of transfer: TransferProgress)
}

extension TransferProgressView {
    /// Shows in the view how much of the response's body has arrived. A view shows one transfer: an earlier binding
    /// ends.
    ///
    /// The view is called with the current progress, as bytes move, and once more when the operation has finished,
    /// before the operation's handlers if they have the same serial queue. While the queue is busy, intermediate values
    /// are skipped.
    ///
    /// - Parameters:
    ///   - operation: is not retained for this.
    ///   - queue: a serial queue, on which the view is called, and nowhere else; the main queue, unless given.
    /// - Returns: the binding, which need not be kept: it lasts until the operation has finished. The view is not
    ///   retained.
    @discardableResult
    public func setProgressWithDownloadProgress(
        of operation: URLConnectionOperation, on queue: DispatchQueue = .main
    ) -> ViewBinding {
        bind(to: operation, on: queue) { TransferProgress.share($0.bytesReceived, of: $0.bytesExpectedToReceive) }
    }

    /// Shows in the view how much of the request's body was sent. The rest is as for a download.
    @discardableResult
    public func setProgressWithUploadProgress(
        of operation: URLConnectionOperation, on queue: DispatchQueue = .main
    ) -> ViewBinding {
        bind(to: operation, on: queue) { TransferProgress.share($0.bytesSent, of: $0.bytesExpectedToSend) }
    }

    /// The same for the task of a session.
    @_disfavoredOverload
    @discardableResult
    public func setProgressWithDownloadProgress(
        of request: some HTTPRequestHandle, on queue: DispatchQueue = .main
    ) -> ViewBinding {
        setProgressWithDownloadProgress(of: request.operation as URLConnectionOperation, on: queue)
    }

    /// The same for the task of a session.
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
    /// From 0 to 1; nil if the total is unknown. An empty body is complete.
    fileprivate static func share(_ bytes: Int64, of expected: Int64?) -> Double? {
        guard let expected else { return nil }
        return expected > 0 ? min(1, max(0, Double(bytes) / Double(expected))) : 1
    }
}
