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

    /// Whether the view is called no more: the operation has finished, which the view was told, or the binding was ended.
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

    /// Something has changed: the view is told when its queue has time.
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

    /// The operation has finished: the view is told once more.
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
