#if GTK
import ConvoyImage
import Dispatch
import Foundation
import Synchronization

/// The number of picture loads in memory, for leak tests.
package enum PictureLoads {
    fileprivate static let living = Atomic(0)
    package static var count: Int { living.load(ordering: .relaxed) }
}

/// One picture being loaded, delivered on the main thread.
@MainActor final class PictureLoad {
    /// The queue of the downloader's handlers, which forward to the main thread in portions.
    private static let arrivals = DispatchQueue(label: "Convoy.GTK.images")

    private var receipt: ImageDownloadReceipt?
    private var handler: Widget.ImageCompletion?
    private var preview: (@MainActor (Image) -> Void)?

    init(
        _ request: ImageRequest, by downloader: ImageDownloader, preview: (@MainActor (Image) -> Void)? = nil,
        _ handler: @escaping Widget.ImageCompletion
    ) {
        PictureLoads.living.add(1, ordering: .relaxed)
        self.handler = handler
        self.preview = preview
        var previewHandler: (@Sendable (Image) -> Void)?
        if preview != nil {
            previewHandler = { [self] image in MainInbox.post { self.preview?(image) } }
        }
        receipt = downloader.load(request, on: Self.arrivals, preview: previewHandler) { [self] result in
            MainInbox.post { self.finish(result) }
        }
    }

    deinit { PictureLoads.living.subtract(1, ordering: .relaxed) }

    private func finish(_ result: Result<Image, any Error>) {
        let handler = handler
        self.handler = nil
        preview = nil
        receipt = nil
        handler?(result)
    }

    var priority: Operation.QueuePriority? {
        get { receipt?.priority }
        set { if let newValue { receipt?.priority = newValue } }
    }

    /// Ends the load, so that no handler is called afterwards.
    ///
    /// The transfer is cancelled in the next iteration of the main loop. GTK unbinds and binds the cells of a list when
    /// the selection changes. A cell that requests the same picture again joins the transfer.
    func cancel() {
        guard let old = receipt else { return }
        handler = nil
        preview = nil
        receipt = nil
        MainInbox.post { old.cancel() }
    }

    /// Ends the load and cancels the transfer immediately, because its widget no longer exists.
    func end() {
        let old = receipt
        handler = nil
        preview = nil
        receipt = nil
        _ = old?.cancel()
    }
}
#endif
