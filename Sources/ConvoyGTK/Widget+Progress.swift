#if GTK
import CGTK
import ConvoyDiagnostics
import ConvoyOperations
import Foundation

extension Widget {
    /// Shows the download progress of an operation in a `GtkProgressBar` or a `GtkLevelBar`. The
    /// counterpart of `setProgressWithDownloadProgressOfOperation:animated:` of `UIProgressView`,
    /// with the rules of `TransferProgressView`.
    ///
    /// While the total size is unknown, a progress bar pulses and a level bar is empty. If the size remains unknown,
    /// the bar is full after the operation succeeds, and empty after it fails.
    ///
    /// - Returns: The binding. You need not keep it: it ends with the operation or with the bar.
    @MainActor @discardableResult
    public func setProgressWithDownloadProgress(of operation: URLConnectionOperation) -> ViewBinding {
        makeProgressBinding().follow(operation) { $0.setProgressWithDownloadProgress(of: operation) }
    }

    /// Shows the upload progress of an operation, following the same rules as the download
    /// progress.
    @MainActor @discardableResult
    public func setProgressWithUploadProgress(of operation: URLConnectionOperation) -> ViewBinding {
        makeProgressBinding().follow(operation) { $0.setProgressWithUploadProgress(of: operation) }
    }

    /// Shows the download progress of a session task.
    @_disfavoredOverload
    @MainActor @discardableResult
    public func setProgressWithDownloadProgress(of request: some HTTPRequestHandle) -> ViewBinding {
        setProgressWithDownloadProgress(of: request.operation as URLConnectionOperation)
    }

    /// Shows the upload progress of a session task.
    @_disfavoredOverload
    @MainActor @discardableResult
    public func setProgressWithUploadProgress(of request: some HTTPRequestHandle) -> ViewBinding {
        setProgressWithUploadProgress(of: request.operation as URLConnectionOperation)
    }

    /// Shows the combined upload and download progress of all members of a batch. While the size of one member is
    /// unknown, the bar behaves as for an operation of unknown size.
    ///
    /// The binding ends when the batch has finished or the bar is destroyed.
    @MainActor public func setProgress(of batch: BatchOperation) {
        makeProgressBinding().follow(batch)
    }

    @MainActor private func makeProgressBinding() -> ProgressBinding {
        require(gtk_progress_bar_get_type(), gtk_level_bar_get_type())
        let binding = ProgressBinding(self)
        bind(binding, as: "progress")
        return binding
    }
}

@MainActor private final class ProgressBinding: WidgetBinding, TransferProgressView {
    private weak var operation: URLConnectionOperation?
    private var operationBinding: ViewBinding?
    private var updates: Task<Void, Never>?
    private let isLevelBar: Bool
    private var pulse: LoopTimer?

    override init(_ widget: Widget) {
        isLevelBar = widget.isA(gtk_level_bar_get_type())
        super.init(widget)
    }

    func follow(_ operation: URLConnectionOperation, _ begin: (any TransferProgressView) -> ViewBinding) -> ViewBinding {
        self.operation = operation
        show(0)
        let binding = begin(self)
        operationBinding = binding
        return binding
    }

    func follow(_ batch: BatchOperation) {
        show(0)
        let stream = batch.transferProgressUpdates
        updates = Task { @MainActor [weak self] in
            var last: Double?
            for await progress in stream {
                last = progress.fractionCompleted
                self?.move(to: last)
            }
            guard !Task.isCancelled else { return }
            self?.finish(last ?? 1)
        }
    }

    nonisolated func setProgress(_ fraction: Double?, of transfer: TransferProgress) {
        MainActor.assumeIsolated { MainLoop.meter.measure { move(to: fraction) } }
    }

    private func move(to fraction: Double?) {
        if let fraction {
            stopPulse()
            show(fraction)
        } else if operation?.isFinished == true {
            // The total size was never announced, so show the final state.
            finish(operation?.error == nil ? 1 : 0)
        } else if pulse == nil, !isLevelBar {
            pulse = LoopTimer.start(after: 0.1, repeats: true) { [weak self] in self?.beat() }
        }
    }

    private func beat() {
        if operationBinding?.isOver == true {
            // The program may have ended the binding before the operation.
            if operation?.isFinished == false { return stopPulse() }
            return finish(operation.map { $0.error == nil } == true ? 1 : 0)
        }
        if widget.isMapped { gtk_progress_bar_pulse(widget.opaque) }
    }

    private func finish(_ fraction: Double) {
        stopPulse()
        show(fraction)
    }

    private func stopPulse() {
        pulse?.cancel()
        pulse = nil
    }

    private func show(_ fraction: Double) {
        let fraction = max(0, min(fraction.isFinite ? fraction : 0, 1))
        if isLevelBar {
            let least = gtk_level_bar_get_min_value(widget.opaque)
            let most = gtk_level_bar_get_max_value(widget.opaque)
            gtk_level_bar_set_value(widget.opaque, least + (most - least) * fraction)
        } else {
            gtk_progress_bar_set_fraction(widget.opaque, fraction)
        }
    }

    override func end() {
        operationBinding?.invalidate()
        updates?.cancel()
        stopPulse()
        operationBinding = nil
        updates = nil
        super.end()
    }
}
#endif
