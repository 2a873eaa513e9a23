import ConvoySupport
import Foundation

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
    ///   - fraction: the share of the bytes of one direction, from 0 to 1; nil as long as nobody knows how many there will be.
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
        let newest = NewestProgress()
        let binding = ViewBinding(of: self, .progress, on: queue) {
            let progress = newest.value.withLock { $0 }
            view.view?.setProgress(fraction(progress), of: progress)
        }
        let end = operation.followProgress(
            ProgressFollower(
                move: { progress in
                    newest.value.withLock { $0 = progress }
                    binding.refresh()
                }, end: { binding.finish() }))
        binding.setEnd(end)
        return binding
    }
}

/// How far the transfer is, of what a view was told last or will be told.
private final class NewestProgress: Sendable {
    let value = Locked(TransferProgress())
}

extension TransferProgress {
    /// From 0 to 1; nil where the whole is unknown. Nothing of nothing is all of it.
    fileprivate static func share(_ bytes: Int64, of expected: Int64?) -> Double? {
        guard let expected else { return nil }
        return expected > 0 ? min(1, max(0, Double(bytes) / Double(expected))) : 1
    }
}
