#if Images
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// The end of loads that are no longer needed, and changes of their priority.
extension ImageDownloader {
    /// Removes a cancelled load.
    func leave(_ receipt: ImageDownloadReceipt) {
        var left: (job: ImageJob, variant: ImageVariant)?
        if park(receipt, &left) { return startWaiting() }
        let operation = jobs.withLock { jobs -> HTTPRequestOperation? in
            // Release the variant outside the lock, because releasing its processors can run code of the program.
            left = receipt.place
            guard let (job, variant) = left else { return nil }
            let (before, formBefore) = (job.level, variant.level)
            job.remove(receipt, from: variant)
            if !variant.receipts.isEmpty {
                if variant.level != formBefore { jobs.requeue(variant) }
                if job.level != before { jobs.requeue(job) }
                return nil
            }
            variant.isCancelled.store(true, ordering: .relaxed)
            return jobs.remove(variant, of: job)
        }
        operation?.cancel()
        if let left { passPriority(to: left.job) }
        startWaiting()
    }

    /// Pauses the transfer of a receipt instead of cancelling it, if the receipt is the last one of an image of which
    /// enough bytes have arrived. Returns false if the receipt must be removed in another way.
    private func park(
        _ receipt: ImageDownloadReceipt, _ left: inout (job: ImageJob, variant: ImageVariant)?
    ) -> Bool {
        // Without a time limit, nothing would end the paused operation.
        guard configuration.resumesCancelledLoads, (configuration.totalTimeout ?? manager.totalTimeout) != nil else {
            return false
        }
        func transfer(_ jobs: ImageJobs) -> (ImageJob, ImageVariant, HTTPRequestOperation)? {
            guard let (job, variant) = receipt.place, let key = job.key, jobs.shared[key] === job,
                job.variants.count == 1, variant.receipts.count == 1, case .transferring(let operation) = job.phase
            else { return nil }
            return (job, variant, operation)
        }
        guard let operation = jobs.withLock({ transfer($0)?.2 }) else { return false }
        let bytes = Int(clamping: operation.transferProgress.bytesReceived)
        guard bytes >= ImageJobs.leastParkedBytes else { return false }
        let cancelled = jobs.withLock { jobs -> [HTTPRequestOperation]? in
            guard let (job, variant, same) = transfer(jobs), same === operation else { return nil }
            left = (job, variant)
            job.remove(receipt, from: variant)
            variant.isCancelled.store(true, ordering: .relaxed)
            job.variants = [:]
            return jobs.park(job, operation, bytes: bytes)
        }
        guard let cancelled, let job = left?.job else { return false }
        operation.pause()
        // A new load may have resumed the operation before it was paused.
        let isWanted = jobs.withLock { _ in
            if case .transferring(let current) = job.phase { current === operation } else { false }
        }
        if isWanted { operation.resume() }
        for operation in cancelled { operation.cancel() }
        return true
    }

    /// Moves the waiting job and variant of a receipt to its new priority.
    func priorityDidChange(_ receipt: ImageDownloadReceipt) {
        let moved = jobs.withLock { jobs -> ImageJob? in
            guard let (job, variant) = receipt.place else { return nil }
            // Read the priority within the lock, so that the last of several changes wins.
            let level = PriorityLevel.of(receipt.priority)
            let (before, formBefore) = (job.level, variant.level)
            job.move(receipt, in: variant, to: level)
            if variant.level != formBefore { jobs.requeue(variant) }
            guard job.level != before else { return nil }
            jobs.requeue(job)
            return job
        }
        if let moved { passPriority(to: moved) }
    }

    /// Passes the priority of a job to its operation. Another thread may change the priority concurrently.
    func passPriority(to job: ImageJob) {
        while true {
            let (operation, level) = jobs.withLock { _ -> (HTTPRequestOperation?, Int) in
                guard case .transferring(let operation) = job.phase else { return (nil, 0) }
                return (operation, job.level)
            }
            guard let operation, operation.queuePriority != PriorityLevel.priority(level) else { return }
            operation.queuePriority = PriorityLevel.priority(level)
        }
    }
}
#endif
