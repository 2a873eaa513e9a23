#if Images
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// Progress and previews while an image arrives.
extension ImageDownloader {
    /// Reports the progress of a transfer, and makes previews if a load requests them.
    func follow(_ operation: HTTPRequestOperation, of job: ImageJob) {
        let (progress, previews) = jobs.withLock { _ in
            let receipts = job.variants.values.lazy.flatMap(\.receipts)
            let progress = !job.reportsProgress && receipts.contains { $0.wantsProgress }
            let previews = !job.reportsPreviews && receipts.contains { $0.wantsPreview }
            if progress { job.reportsProgress = true }
            if previews { job.reportsPreviews = true }
            return (progress, previews)
        }
        if progress {
            operation.downloadProgressHandler = { [weak self, weak operation] _, _, _ in
                guard let self, let operation else { return }
                let progress = operation.transferProgress
                for receipt in receipts(of: job) { receipt.report(progress) }
            }
        }
        if previews {
            operation.followBody { [weak self] body in
                guard let self, job.previews.begin(with: body().count) else { return }
                let data = body()
                ImageDownloader.workers.perform { [self] in
                    makePreview(of: job, data)
                    job.previews.end(interval: configuration.previewInterval)
                }
            }
        }
    }

    private func receipts(of job: ImageJob) -> [ImageDownloadReceipt] {
        jobs.withLock { _ in job.variants.values.flatMap { Array($0.receipts) } }
    }

    /// Shows the complete scans of a progressive JPEG. Called on a decoding thread.
    private func makePreview(of job: ImageJob, _ data: Data) {
        guard let whole = data.withUnsafeBytes({ ImageLayout.wholeScans(ofProgressive: ImageBytes($0)) }),
            job.previews.advances(to: whole.count)
        else { return }
        let coarse = data.prefix(whole.end) + [0xFF, 0xD9]
        let variants = jobs.withLock { _ in
            job.variants.values.filter { $0.receipts.contains { $0.wantsPreview } }
        }
        for variant in variants {
            let image = try? variant.request.image(of: coarse, nil, configuration) {
                variant.isCancelled.load(ordering: .relaxed)
            }
            guard let image else { continue }
            for receipt in jobs.withLock({ _ in variant.receipts }) { receipt.show(image) }
        }
    }
}

extension ImageRequest {
    /// Decodes a body in the form that the request specifies.
    func image(
        of data: Data, _ response: HTTPURLResponse?, _ configuration: ImageDownloader.Configuration,
        isCancelled: @escaping @Sendable () -> Bool
    ) throws -> Image {
        let decoding = ImageDecoding(
            limits: configuration.imageLimits, requiresEndMarker: configuration.requiresEndMarker, size: size,
            contentMode: contentMode, allowsAnimation: allowsAnimation, isCancelled: isCancelled)
        var image: Image
        do throws(ImageFault) {
            image = try ImageDecoder.image(data, decoding)
        } catch {
            throw error.error(for: response, data: data)
        }
        guard !processors.isEmpty else { return image }
        func process(_ image: Image) throws -> Image {
            try processors.reduce(image) { image, processor in
                if isCancelled() { throw URLError(.cancelled) }
                return try processor.process(image)
            }
        }
        guard let animation = image.animation.take() else { return try process(image) }
        let frames = try animation.frames.map {
            ImageAnimation.Frame(image: try process($0.image), duration: $0.duration)
        }
        guard var first = frames.first?.image else { return image }
        first.animation = ImageAnimation(frames: frames, loopCount: animation.loopCount)
        return first
    }
}
#endif
