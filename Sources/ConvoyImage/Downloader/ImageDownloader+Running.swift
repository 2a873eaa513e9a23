#if Images
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// The life of a load: from its request to its decoded image.
extension ImageDownloader {
    func begin(_ request: ImageRequest, _ receipt: ImageDownloadReceipt) {
        let prepared = prepared(request)
        guard request.urlRequest.mayUseMemory, let thumbnails, !mayAuthenticate, let key = prepared.cacheKey,
            let name = ImageThumbnailCache.name(for: key), thumbnails.contains(name),
            cache?.image(for: key, acceptsStale: request.urlRequest.acceptsStaleImages) == nil
        else { return begin(request, prepared, receipt) }
        ImageDownloader.workers.perform { [self] in
            if receipt.isEnded { return }
            guard let (image, lifetime) = thumbnails.image(name) else {
                begin(request, prepared, receipt)
                // It may have been cancelled before it had a place.
                if receipt.isEnded { leave(receipt) }
                return
            }
            cache?.insert(image, for: key, tag: request.cacheTag, lifetime: lifetime)
            receipt.end(with: .success(image))
        }
    }

    private func begin(_ request: ImageRequest, _ prepared: Prepared, _ receipt: ImageDownloadReceipt) {
        let mayUseMemory = request.urlRequest.mayUseMemory
        var stored: Image?
        var decodes = false
        var joined: (ImageJob, HTTPRequestOperation)?
        jobs.withLock { jobs in
            // Check within the lock, because a finished job has already stored its image in the cache.
            if mayUseMemory, let key = prepared.cacheKey {
                stored = cache?.image(for: key, acceptsStale: request.urlRequest.acceptsStaleImages)
                if stored != nil { return }
            }
            let level = PriorityLevel.of(receipt.priority)
            let known = prepared.sharedKey.flatMap { jobs.shared[$0] }
            let job = known ?? ImageJob(prepared.request, prepared.sharedKey)
            let before = job.level
            let variant: ImageVariant
            if let other = job.variants[prepared.form] {
                variant = other
                if let tag = request.cacheTag { variant.cacheTag = tag }
                job.add(receipt, to: variant, level: level)
                jobs.requeue(variant)
            } else {
                variant = ImageVariant(request, prepared.form, prepared.cacheKey, job)
                job.variants[prepared.form] = variant
                job.add(receipt, to: variant, level: level)
                if case .decoding = job.phase {
                    jobs.enqueue(variant)
                    decodes = true
                }
            }
            if known == nil {
                jobs.add(job)
            } else if case .parked = job.phase {
                jobs.unpark(job)
            } else if configuration.prioritization == .lifo || job.level != before {
                jobs.requeue(job)
            }
            if case .transferring(let operation) = job.phase { joined = (job, operation) }
        }
        if let stored { return receipt.end(with: .success(stored)) }
        if let (job, operation) = joined {
            passPriority(to: job)
            follow(operation, of: job)
        }
        if decodes { ImageDownloader.workers.perform { [self] in decodeNext() } }
        startWaiting()
    }

    /// Starts waiting transfers, up to the limit.
    func startWaiting() {
        while let job = jobs.withLock({ jobs -> ImageJob? in
            let limit = max(1, configuration.maximumActiveDownloads)
            // Limit the bodies in memory to one per concurrent transfer and one per decoding thread.
            guard jobs.running < limit, jobs.running + jobs.decoding < limit + ImageDownloader.workerCount else {
                return nil
            }
            return jobs.startNext(configuration.prioritization)
        }) {
            start(job)
        }
    }

    private func start(_ job: ImageJob) {
        if let local = job.request.url.flatMap({ LocalImage($0) }) { return read(local, job) }
        if let operation = jobs.withLock({ _ in beginResuming(job) }) {
            passPriority(to: job)
            follow(operation, of: job)
            return operation.resume()
        }
        let operation = manager.makeOperation(request: job.request)
        let limit = configuration.maximumBodySize
        var serializer = HTTPResponseSerializer()
        serializer.acceptableContentTypes = configuration.acceptableContentTypes
        operation.updateSettings { settings in
            settings.responseSerializer = serializer
            settings.maximumBodySize = min(settings.maximumBodySize, limit)
            if let timeout = configuration.totalTimeout { settings.totalTimeout = timeout }
            settings.completionQueue = queue
            settings.completionGroup = nil
            // The downloader already shares transfers among its loads.
            settings.coalescesIdenticalRequests = false
        }
        operation.setCompletionHandler(
            success: { [self] operation, object in
                transferDidEnd(job, operation.response, object as? Data, nil)
            },
            failure: { [self] operation, error in transferDidEnd(job, operation.response, nil, error) })
        let isWanted = jobs.withLock { jobs in
            guard case .starting = job.phase else {
                jobs.transferDidEnd(job)
                return false
            }
            job.phase = .transferring(operation)
            return true
        }
        // The job was cancelled while the operation was being created, so the next one may start.
        guard isWanted else { return }
        passPriority(to: job)
        follow(operation, of: job)
        manager.enqueue(operation)
    }

    /// Returns the paused operation of a job that starts. Called within the lock.
    private func beginResuming(_ job: ImageJob) -> HTTPRequestOperation? {
        guard case .starting = job.phase, let operation = job.pausedOperation.take() else { return nil }
        job.phase = .transferring(operation)
        job.isResumed = true
        return operation
    }

    /// Reads a local image on a decoding thread.
    private func read(_ local: LocalImage, _ job: ImageJob) {
        let isWanted = jobs.withLock { jobs in
            guard case .starting = job.phase else {
                jobs.transferDidEnd(job)
                return false
            }
            job.phase = .reading
            return true
        }
        guard isWanted else { return }
        ImageDownloader.workers.perform { [self] in
            do {
                let data = try local.data(limit: configuration.maximumBodySize, allowsFiles: configuration.allowsFileURLs)
                transferDidEnd(job, nil, data, nil)
            } catch {
                transferDidEnd(job, nil, nil, error)
            }
        }
    }

    private func transferDidEnd(_ job: ImageJob, _ response: HTTPURLResponse?, _ data: Data?, _ error: (any Error)?) {
        var failed: [ImageDownloadReceipt] = []
        // Release the variants outside the lock, because releasing their processors can run code of the program.
        let (variants, decodes) = jobs.withLock { jobs -> ([ImageVariant], Bool) in
            if jobs.pausedOperationDidEnd(job) { return ([], false) }
            jobs.transferDidEnd(job)
            if job.isResumed, case .transferring = job.phase, (error as? URLError)?.code == .timedOut {
                // The time of the cancelled load is over, not that of this one.
                job.isResumed = false
                job.stopReporting()
                jobs.add(job)
                return ([], false)
            }
            switch job.phase {
            case .transferring, .reading: break
            default: return ([], false)
            }
            let variants = Array(job.variants.values)
            if let data, !data.isEmpty {
                jobs.beginDecoding(job, data, response)
                return (variants, true)
            }
            for variant in variants {
                for receipt in variant.receipts {
                    failed.append(receipt)
                    job.remove(receipt, from: variant)
                }
            }
            job.variants = [:]
            _ = jobs.giveUp(job)
            return (variants, false)
        }
        if !failed.isEmpty {
            let error = error ?? ImageFault.empty.error(for: response, data: Data())
            forgetBody(of: job, response, after: error)
            for receipt in failed.inOrder { receipt.end(with: .failure(error)) }
        }
        if decodes { for _ in variants { ImageDownloader.workers.perform { [self] in decodeNext() } } }
        startWaiting()
    }

    /// Decodes the most urgent waiting variant. Called on a decoding thread.
    private func decodeNext() {
        guard let (variant, job, data, response) = jobs.withLock({ $0.decodeNext() }) else { return }
        let result: Result<Image, any Error>
        do {
            result = .success(
                try variant.request.image(of: data, response, configuration) {
                    variant.isCancelled.load(ordering: .relaxed)
                })
        } catch {
            forgetBody(of: job, response, after: error)
            result = .failure(error)
        }
        if case .success(let image) = result { keep(image, variant, response) }
        let receipts = jobs.withLock { jobs in
            let receipts = variant.receipts
            for receipt in receipts { job.remove(receipt, from: variant) }
            _ = jobs.remove(variant, of: job)
            return receipts
        }
        for receipt in receipts.inOrder { receipt.end(with: result) }
        if case .success(let image) = result { keepThumbnail(image, variant, response) }
        startWaiting()
    }
}
#endif
