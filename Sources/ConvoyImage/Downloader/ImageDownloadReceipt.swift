#if Images
import ConvoyOperations
import ConvoySupport
import Foundation

/// One load of an image, by which it can be cancelled and its priority changed. The counterpart of
/// `AFImageDownloadReceipt`.
///
/// A load goes on if its receipt is released. A receipt that has ended, by its completion or by ``cancel()``, holds no
/// closure.
public final class ImageDownloadReceipt: Sendable, Hashable {
    struct Handlers: Sendable {
        /// The queue of the handlers; nil to call them where they arise.
        var queue: DispatchQueue?
        var progress: (@Sendable (TransferProgress) -> Void)?
        var preview: (@Sendable (Image) -> Void)?
        var completion: @Sendable (Result<Image, any Error>) -> Void
        /// Called by a cancel, for one who awaits the image.
        var cancelled: (@Sendable () -> Void)?
    }

    private struct State {
        /// nil after the end.
        var handlers: Handlers?
        var priority: Operation.QueuePriority
        /// The last progress, until a handler gets it.
        var progress: TransferProgress?
        /// nil once nothing is left to cancel.
        var downloader: ImageDownloader?
    }

    private let state: Locked<State>
    /// What the receipt waits for. Guarded by the downloader's lock.
    nonisolated(unsafe) var place: (job: ImageJob, variant: ImageVariant)?
    /// The priority that counts in `place`. Guarded by the downloader's lock.
    nonisolated(unsafe) var countedLevel = 0
    /// The order in which the loads of an image began. Guarded by the downloader's lock.
    nonisolated(unsafe) var number = 0
    let wantsProgress: Bool
    let wantsPreview: Bool

    init(_ downloader: ImageDownloader, _ priority: Operation.QueuePriority, _ handlers: Handlers) {
        (wantsProgress, wantsPreview) = (handlers.progress != nil, handlers.preview != nil)
        state = Locked(State(handlers: handlers, priority: priority, downloader: downloader))
    }

    /// Ends the load, unless its completion was called. Another load of the same image goes on; the last one's cancel
    /// ends the transfer.
    ///
    /// The completion of a cancelled load is never called. No handler begins after this has returned: none at all, if
    /// it is called on the handlers' queue and that is serial; otherwise one of them may still be running.
    ///
    /// - Returns: whether this has ended the load. False if its completion was called, or is being called, or if it was
    ///   cancelled before: of all loads, each has either one call of its completion or one cancel that returned true.
    @discardableResult
    public func cancel() -> Bool {
        let (handlers, downloader) = state.withLock { ($0.handlers.take(), $0.downloader.take()) }
        guard let handlers else { return false }
        downloader?.leave(self)
        handlers.cancelled?()
        return true
    }

    /// Whether the completion was called, or the load cancelled.
    public var isEnded: Bool { state.withLock { $0.handlers == nil } }

    /// How urgent the image is. The highest priority of all loads of an image counts. A change moves what waits, and
    /// what has begun gets its bytes and its decoding by it.
    public var priority: Operation.QueuePriority {
        get { state.withLock { $0.priority } }
        set {
            let downloader = state.withLock { state in
                state.priority = newValue
                return state.downloader
            }
            downloader?.priorityDidChange(self)
        }
    }

    // MARK: Delivery

    /// Calls the completion on its queue, unless the load is cancelled before.
    func end(with result: Result<Image, any Error>) {
        let queue = state.withLock { state in
            state.downloader = nil
            return state.handlers?.queue
        }
        call(on: queue) { [self] in state.withLock { $0.handlers.take() }?.completion(result) }
    }

    /// Passes a preview on.
    func show(_ preview: Image) {
        guard wantsPreview, let handlers = state.withLock({ $0.handlers }) else { return }
        call(on: handlers.queue) { [self] in state.withLock { $0.handlers?.preview }?(preview) }
    }

    /// Passes the progress on. Where the queue cannot keep up, its handler gets the last one.
    func report(_ progress: TransferProgress) {
        guard wantsProgress else { return }
        let handlers = state.withLock { state -> Handlers? in
            defer { if state.handlers != nil { state.progress = progress } }
            return state.progress == nil ? state.handlers : nil
        }
        guard let handlers else { return }
        call(on: handlers.queue) { [self] in
            let (handler, latest) = state.withLock { ($0.handlers?.progress, $0.progress.take()) }
            if let handler, let latest { handler(latest) }
        }
    }

    private func call(on queue: DispatchQueue?, _ block: @escaping @Sendable () -> Void) {
        if let queue { queue.async(execute: block) } else { block() }
    }

    // MARK: Identity

    /// Whether these are the same receipt.
    public static func == (one: ImageDownloadReceipt, other: ImageDownloadReceipt) -> Bool { one === other }

    /// Hashes the receipt's identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension Collection<ImageDownloadReceipt> {
    /// In the order in which the loads began.
    var inOrder: [ImageDownloadReceipt] { sorted { $0.number < $1.number } }
}
#endif
