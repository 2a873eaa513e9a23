#if Images
import ConvoyOperations
import ConvoySupport
import Foundation

/// A handle for one load of an image, used to cancel the load or change its priority. The counterpart of
/// `AFImageDownloadReceipt`.
///
/// Releasing a receipt does not cancel its load. After the completion or ``cancel()``, a receipt holds no closures.
public final class ImageDownloadReceipt: Sendable, Hashable {
    struct Handlers: Sendable {
        /// The queue of the handlers; nil to call them directly.
        var queue: DispatchQueue?
        var progress: (@Sendable (TransferProgress) -> Void)?
        var preview: (@Sendable (Image) -> Void)?
        var completion: @Sendable (Result<Image, any Error>) -> Void
        /// The closure that `cancel()` calls, for callers that await the image.
        var cancelled: (@Sendable () -> Void)?
    }

    private struct State {
        /// The handlers; nil after the load has ended.
        var handlers: Handlers?
        var priority: Operation.QueuePriority
        /// The latest progress that has not been delivered yet.
        var progress: TransferProgress?
        /// The downloader; nil once nothing is left to cancel.
        var downloader: ImageDownloader?
    }

    private let state: Locked<State>
    /// The job and variant for which the receipt waits. Guarded by the downloader's lock.
    nonisolated(unsafe) var place: (job: ImageJob, variant: ImageVariant)?
    /// The priority with which the receipt is counted in `place`. Guarded by the downloader's lock.
    nonisolated(unsafe) var countedLevel = 0
    /// The position of the load in the start order of all loads of an image. Guarded by the downloader's lock.
    nonisolated(unsafe) var number = 0
    let wantsProgress: Bool
    let wantsPreview: Bool

    init(_ downloader: ImageDownloader, _ priority: Operation.QueuePriority, _ handlers: Handlers) {
        wantsProgress = handlers.progress != nil
        wantsPreview = handlers.preview != nil
        state = Locked(State(handlers: handlers, priority: priority, downloader: downloader))
    }

    /// Cancels the load, unless its completion has been called. Other loads of the same image continue; cancelling the
    /// last one cancels the transfer.
    ///
    /// The completion of a cancelled load is never called. No handler starts after this method returns. A handler may
    /// still be running, unless the method is called on the serial queue of the handlers.
    ///
    /// - Returns: Whether this call has ended the load. False if the completion has been called or is being called, or
    ///   if the load was already cancelled. Each load ends with either one call of its completion or one `cancel()`
    ///   that returns true.
    @discardableResult
    public func cancel() -> Bool {
        let (handlers, downloader) = state.withLock { ($0.handlers.take(), $0.downloader.take()) }
        guard let handlers else { return false }
        downloader?.leave(self)
        handlers.cancelled?()
        return true
    }

    /// Whether the completion has been called or the load cancelled.
    public var isEnded: Bool { state.withLock { $0.handlers == nil } }

    /// The priority of the image. If several loads share an image, the highest priority applies. A change reorders
    /// waiting downloads, and affects the transfer and the decoding of a running download.
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

    /// Calls the completion on the queue of the handlers, unless the load is cancelled first.
    func end(with result: Result<Image, any Error>) {
        let queue = state.withLock { state in
            state.downloader = nil
            return state.handlers?.queue
        }
        call(on: queue) { [self] in state.withLock { $0.handlers.take() }?.completion(result) }
    }

    /// Delivers a preview.
    func show(_ preview: Image) {
        guard wantsPreview, let handlers = state.withLock({ $0.handlers }) else { return }
        call(on: handlers.queue) { [self] in state.withLock { $0.handlers?.preview }?(preview) }
    }

    /// Delivers the progress. If the queue is busy, only the latest value is delivered.
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

    /// Returns whether both are the same receipt.
    public static func == (one: ImageDownloadReceipt, other: ImageDownloadReceipt) -> Bool { one === other }

    /// Hashes the receipt's identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

extension Collection<ImageDownloadReceipt> {
    /// The receipts in the order in which their loads began.
    var inOrder: [ImageDownloadReceipt] { sorted { $0.number < $1.number } }
}
#endif
