#if Images
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// The transfer of one image, and the requested variants of the image. All members are guarded by the downloader's
/// lock.
final class ImageJob: @unchecked Sendable {
    enum Phase {
        /// The job is waiting, at the given position in the list.
        case waiting(place: Int)
        /// The operation is being created.
        case starting
        case transferring(HTTPRequestOperation)
        /// All loads were cancelled. The operation is paused, and keeps the bytes that have arrived.
        case parked
        /// A file or a `data:` URL is being read.
        case reading
        /// The bytes have arrived, and variants are being decoded.
        case decoding(Data, HTTPURLResponse?)
        /// No variant is needed anymore.
        case over
    }

    let key: SharedTransferKey?
    let request: URLRequest
    var phase = Phase.over
    /// The operation with the bytes of an earlier transfer. It is resumed when the job starts.
    var pausedOperation: HTTPRequestOperation?
    /// The number of bytes of the paused operation.
    fileprivate var parkedBytes = 0
    /// Whether the job counts as a running transfer.
    fileprivate var isRunning = false
    var variants: [ExactString: ImageVariant] = [:]
    /// The number of receipts for each priority.
    private var counts = [Int](repeating: 0, count: PriorityLevel.count)
    private var loads = 0
    var reportsProgress = false
    var reportsPreviews = false
    /// Whether the job continues the operation of a cancelled load.
    var isResumed = false
    let previews = PreviewPace()

    /// Records that nothing follows the next operation yet.
    func stopReporting() {
        reportsProgress = false
        reportsPreviews = false
    }

    init(_ request: URLRequest, _ key: SharedTransferKey?) {
        self.request = request
        self.key = key
    }

    /// The most urgent priority level of the job's receipts.
    var level: Int { counts.firstIndex { $0 > 0 } ?? PriorityLevel.count - 1 }

    func add(_ receipt: ImageDownloadReceipt, to variant: ImageVariant, level: Int) {
        receipt.place = (self, variant)
        receipt.countedLevel = level
        loads += 1
        receipt.number = loads
        counts[level] += 1
        variant.add(receipt, level: level)
    }

    func remove(_ receipt: ImageDownloadReceipt, from variant: ImageVariant) {
        receipt.place = nil
        counts[receipt.countedLevel] -= 1
        variant.remove(receipt)
    }

    func move(_ receipt: ImageDownloadReceipt, in variant: ImageVariant, to level: Int) {
        counts[receipt.countedLevel] -= 1
        counts[level] += 1
        variant.move(receipt, to: level)
        receipt.countedLevel = level
    }
}

/// A requested form of an image: its size and processors. Guarded by the downloader's lock.
final class ImageVariant: @unchecked Sendable {
    let form: ExactString
    let request: ImageRequest
    let cacheKey: ImageCacheKey?
    unowned(unsafe) let job: ImageJob
    /// The loads that wait for this variant.
    private(set) var receipts: Set<ImageDownloadReceipt> = []
    private var counts = [Int](repeating: 0, count: PriorityLevel.count)
    /// The tag under which the image is cached; the last one set wins.
    var cacheTag: String?
    /// The position in the list of variants to decode; nil if the variant is not in it.
    var place: Int?
    /// Whether the variant has been cancelled; read by the decoding thread.
    let isCancelled = Atomic<Bool>(false)

    init(_ request: ImageRequest, _ form: ExactString, _ cacheKey: ImageCacheKey?, _ job: ImageJob) {
        self.request = request
        self.form = form
        self.cacheKey = cacheKey
        self.job = job
        cacheTag = request.cacheTag
    }

    var level: Int { counts.firstIndex { $0 > 0 } ?? PriorityLevel.count - 1 }

    fileprivate func add(_ receipt: ImageDownloadReceipt, level: Int) {
        receipts.insert(receipt)
        counts[level] += 1
    }

    fileprivate func remove(_ receipt: ImageDownloadReceipt) {
        receipts.remove(receipt)
        counts[receipt.countedLevel] -= 1
    }

    fileprivate func move(_ receipt: ImageDownloadReceipt, to level: Int) {
        counts[receipt.countedLevel] -= 1
        counts[level] += 1
    }
}

/// The five levels of `Operation.QueuePriority`; 0 is the most urgent.
enum PriorityLevel {
    static let count = 5

    static func of(_ priority: Operation.QueuePriority) -> Int {
        switch priority {
        case .veryHigh: 0
        case .high: 1
        case .normal: 2
        case .low: 3
        case .veryLow: 4
        @unknown default: 2
        }
    }

    static func priority(_ level: Int) -> Operation.QueuePriority {
        [.veryHigh, .high, .normal, .low, .veryLow][min(max(0, level), count - 1)]
    }
}

/// The rate limit for the previews of a transfer. Used on the network thread.
final class PreviewPace: Sendable {
    private struct State {
        var isBusy = false
        var earliest: MonotonicTime = 0
        var seenBytes = 0
        var seenScans = 0
    }

    private let state = Locked(State())

    /// Returns whether to make a preview of the given number of bytes now. If true, `end` must be called afterwards.
    func begin(with count: Int) -> Bool {
        let now = MonotonicClock.now
        return state.withLock { state in
            // Require a quarter more bytes each time, so that all previews together cost a few times as much as the
            // image.
            guard !state.isBusy, now >= state.earliest, count >= state.seenBytes + max(256, state.seenBytes / 4) else {
                return false
            }
            state.isBusy = true
            state.seenBytes = count
            return true
        }
    }

    /// Returns whether the number of scans exceeds that of the last preview.
    func advances(to scans: Int) -> Bool {
        state.withLock { state in
            guard scans > state.seenScans else { return false }
            state.seenScans = scans
            return true
        }
    }

    func end(interval: TimeInterval) {
        let earliest = Nanoseconds.deadline(interval, after: MonotonicClock.now)
        state.withLock { ($0.isBusy, $0.earliest) = (false, earliest) }
    }
}

/// The state of a downloader: its running and waiting transfers, and the variants to decode.
struct ImageJobs {
    /// The jobs that further loads may join.
    private(set) var shared: [SharedTransferKey: ImageJob] = [:]
    private var waiting = LinkedLists<ImageJob>(count: PriorityLevel.count)
    private var undecoded = LinkedLists<ImageVariant>(count: PriorityLevel.count)
    /// The jobs whose loads were cancelled, from the first to the last.
    private var parked: [ImageJob] = []
    /// The number of transfers that are running or being stopped.
    private(set) var running = 0
    /// The number of bodies waiting to be decoded, or being decoded.
    private(set) var decoding = 0

    var waitingCount: Int { waiting.count }
    var isIdle: Bool {
        waiting.count == 0 && undecoded.count == 0 && running == 0 && decoding == 0 && shared.count == parked.count
    }

    // MARK: Waiting

    mutating func add(_ job: ImageJob) {
        if let key = job.key { shared[key] = job }
        job.phase = .waiting(place: waiting.append(job, to: job.level))
    }

    /// Moves a waiting job to the end of the list for its priority.
    mutating func requeue(_ job: ImageJob) {
        if case .waiting(let place) = job.phase { waiting.move(place, to: job.level) }
    }

    /// Returns the next job to start, or nil if none is waiting.
    mutating func startNext(_ order: ImageDownloader.Prioritization) -> ImageJob? {
        for level in 0..<PriorityLevel.count {
            guard let place = order == .fifo ? waiting.first(of: level) : waiting.last(of: level),
                let job = waiting.remove(place)
            else { continue }
            job.phase = .starting
            job.isRunning = true
            running += 1
            return job
        }
        return nil
    }

    /// Records the end of a transfer.
    mutating func transferDidEnd(_ job: ImageJob) {
        guard job.isRunning else { return }
        job.isRunning = false
        running -= 1
    }

    // MARK: Parking

    /// The maximum number of parked jobs, and of their bytes in total.
    private static let mostParked = 8
    private static let mostParkedBytes = 16 << 20
    /// The number of bytes that are worth a request for the rest.
    static let leastParkedBytes = 64 << 10

    /// Keeps a job without loads. Returns the operations of the jobs that must be cancelled instead.
    mutating func park(_ job: ImageJob, _ operation: HTTPRequestOperation, bytes: Int) -> [HTTPRequestOperation] {
        job.phase = .parked
        job.pausedOperation = operation
        job.parkedBytes = bytes
        transferDidEnd(job)
        parked.append(job)
        var cancelled: [HTTPRequestOperation] = []
        while parked.count > Self.mostParked || parked.reduce(0, { $0 + $1.parkedBytes }) > Self.mostParkedBytes {
            let oldest = parked.removeFirst()
            unshare(oldest)
            oldest.phase = .over
            if let operation = oldest.pausedOperation.take() { cancelled.append(operation) }
        }
        return cancelled
    }

    /// Makes a parked job wait again.
    mutating func unpark(_ job: ImageJob) {
        parked.removeAll { $0 === job }
        add(job)
    }

    /// Records the end of a paused operation, for example after its total timeout. Returns whether the job was paused.
    mutating func pausedOperationDidEnd(_ job: ImageJob) -> Bool {
        switch job.phase {
        case .parked:
            parked.removeAll { $0 === job }
            _ = giveUp(job)
        case .waiting, .starting: break
        default: return false
        }
        job.pausedOperation = nil
        job.stopReporting()
        return true
    }

    /// Cancels a job and its waiting variants. Returns the operation that must be cancelled.
    mutating func giveUp(_ job: ImageJob) -> HTTPRequestOperation? {
        defer { job.phase = .over }
        unshare(job)
        switch job.phase {
        case .waiting(let place):
            waiting.remove(place)
            return job.pausedOperation.take()
        case .transferring(let operation): return operation
        case .decoding: decoding -= 1
        case .starting: return job.pausedOperation.take()
        case .reading, .parked, .over: break
        }
        return nil
    }

    private mutating func unshare(_ job: ImageJob) {
        if let key = job.key, shared[key] === job { shared[key] = nil }
    }

    // MARK: Decoding

    /// Stores the body of a job, and queues all its variants for decoding.
    mutating func beginDecoding(_ job: ImageJob, _ data: Data, _ response: HTTPURLResponse?) {
        job.phase = .decoding(data, response)
        decoding += 1
        for variant in job.variants.values { enqueue(variant) }
    }

    mutating func enqueue(_ variant: ImageVariant) { variant.place = undecoded.append(variant, to: variant.level) }

    mutating func requeue(_ variant: ImageVariant) {
        if let place = variant.place { undecoded.move(place, to: variant.level) }
    }

    /// Returns the next variant to decode, and its bytes.
    mutating func decodeNext() -> (variant: ImageVariant, job: ImageJob, data: Data, response: HTTPURLResponse?)? {
        for level in 0..<PriorityLevel.count {
            while let place = undecoded.first(of: level), let variant = undecoded.remove(place) {
                variant.place = nil
                if case .decoding(let data, let response) = variant.job.phase {
                    return (variant, variant.job, data, response)
                }
            }
        }
        return nil
    }

    /// Removes a variant that has been decoded or is no longer needed. Returns the operation that must be cancelled.
    mutating func remove(_ variant: ImageVariant, of job: ImageJob) -> HTTPRequestOperation? {
        if let place = variant.place { undecoded.remove(place) }
        variant.place = nil
        if job.variants[variant.form] === variant { job.variants[variant.form] = nil }
        return job.variants.isEmpty ? giveUp(job) : nil
    }
}
#endif
