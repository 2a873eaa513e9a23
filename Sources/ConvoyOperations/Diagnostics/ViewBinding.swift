import ConvoySupport
import Foundation

/// Lets a view show how an operation is. It lasts until the operation has finished, and need not be kept; it retains
/// neither the view nor the operation.
///
/// The view is called on one queue, and only as often as that has time: what has changed meanwhile is shown at once.
public final class ViewBinding: Sendable {
    /// What a view shows: one operation for each.
    enum Kind: Hashable { case activity, progress }

    private struct Place: Hashable {
        let view: ObjectIdentifier
        let kind: Kind
    }

    private struct Bound {
        weak var binding: ViewBinding?
    }

    private struct State {
        var update: (@Sendable () -> Void)?
        /// Ends what tells this binding of changes.
        var end: (@Sendable () -> Void)?
        /// Whether the queue has an update to make.
        var isPending = false
        var isOver = false
    }

    /// The bindings of all views, so that a view that is used again ends its earlier one.
    private static let all = Locked<[Place: Bound]>([:])

    private let place: Place
    private let queue: DispatchQueue
    private let state: Locked<State>

    /// - Parameters:
    ///   - view: not retained.
    ///   - queue: where `update` is called.
    ///   - update: shows how the operation is now. Released at the end.
    init(of view: AnyObject, _ kind: Kind, on queue: DispatchQueue, update: @escaping @Sendable () -> Void) {
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

    /// Whether the view is called no more: the operation has finished, which the view has shown, or the binding was ended.
    public var isOver: Bool { state.withLock { $0.isOver } }

    /// Ends the binding, and leaves the view as it is. No call of the view begins after this has returned, but one that is
    /// under way may go on.
    public func invalidate() {
        let old = state.withLock { state in
            defer { state = State(update: nil, end: nil, isPending: false, isOver: true) }
            return state
        }
        old.end?()
        leave()
    }

    /// Says how the changes are no longer told.
    func setEnd(_ end: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            if !state.isOver { state.end = end }
            return state.isOver
        }
        if isOver { end() }
    }

    /// Something has changed: the view is updated when its queue has time.
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

    /// The operation has finished: the view is updated once more.
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
            // While it is being released, it is not to be found any more, and nor is anybody else.
            if bound.binding.map({ ObjectIdentifier($0) == own }) ?? true { all[place] = nil }
        }
    }
}

/// A view that is not retained, and only touched on the queue of its binding.
struct WeakView<View>: @unchecked Sendable {
    private weak var object: AnyObject?

    init(_ view: View) { object = view as AnyObject }

    /// The view, as long as it exists.
    var view: View? { object as? View }
}

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

/// What shows how far a transfer is, such as a bar of any toolkit. The counterpart of AFNetworking's category of
/// `UIProgressView`.
///
/// ```swift
/// extension Bar: ProgressView {
///     func setProgress(_ fraction: Double?, of transfer: TransferProgress) { value = fraction ?? 0 }
/// }
/// bar.setProgressWithDownloadProgress(of: operation)
/// ```
public protocol ProgressView: AnyObject {
    /// The transfer has moved. Called on the queue of the binding.
    ///
    /// - Parameters:
    ///   - fraction: the share of the bytes of one direction, from 0 to 1; nil as long as it is unknown how many there will be.
    ///   - transfer: the bytes of both directions.
    func setProgress(_ fraction: Double?, of transfer: TransferProgress)
}

extension ProgressView {
    /// Lets the view show how much of the response's body is there. A view shows one transfer: an earlier binding ends.
    ///
    /// The view is told how far the transfer is now, as it moves, and once more when the operation has finished, before the
    /// operation's handlers are called if those have the same serial queue. While the queue is busy, only the newest counts.
    ///
    /// - Parameters:
    ///   - operation: is not retained for this.
    ///   - queue: a serial queue, on which the view is called, and nowhere else; the main queue, unless given.
    /// - Returns: the binding, which need not be kept: it lasts until the operation has finished. The view is not retained.
    @discardableResult
    public func setProgressWithDownloadProgress(
        of operation: URLConnectionOperation, on queue: DispatchQueue = .main
    ) -> ViewBinding {
        bind(to: operation, on: queue) { TransferProgress.share($0.bytesReceived, of: $0.bytesExpectedToReceive) }
    }

    /// Lets the view show how much of the request's body has gone out. The rest is as for a download.
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
        let view = WeakView<any ProgressView>(self)
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
    /// From 0 to 1; nil where the whole is unknown. Nothing of nothing is all of it.
    fileprivate static func share(_ bytes: Int64, of expected: Int64?) -> Double? {
        guard let expected else { return nil }
        return expected > 0 ? min(1, max(0, Double(bytes) / Double(expected))) : 1
    }
}
