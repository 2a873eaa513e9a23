import ConvoySupport
import ConvoyTransport
import Foundation

/// Records the requests of operations as a ``HARLog``.
///
/// ```swift
/// let recorder = HARRecorder()
/// manager.eventMonitors = [recorder.monitor]
/// …
/// try await recorder.log().write(to: file)
/// ```
///
/// Secrets are masked, unless they are asked for: those that `ConnectionTrace` masks, and the values of cookies. It keeps
/// what it has recorded in memory, some kilobytes for each request, until ``removeAll()``.
public final class HARRecorder: Sendable {
    private let recording: Recording

    /// What records: for the `eventMonitors` of managers and operations.
    public let monitor: EventMonitor

    /// A recorder of nothing yet.
    ///
    /// - Parameter includesSecrets: whether secrets are shown as they are: for files that nobody else gets.
    public init(includesSecrets: Bool = false) {
        let recording = Recording(includesSecrets: includesSecrets)
        self.recording = recording
        monitor = EventMonitor(capacity: .max) { events in recording.take(events) }
    }

    /// What has been recorded until now: all requests that have ended.
    public func log() async -> HARLog {
        await withCheckedContinuation { done in log { done.resume(returning: $0) } }
    }

    /// As ``log()``.
    ///
    /// - Parameter completion: called on the monitor's queue.
    public func log(completion: @escaping @Sendable (HARLog) -> Void) {
        monitor.whenCaughtUp { [recording] in completion(recording.log()) }
    }

    /// Forgets what has been recorded.
    public func removeAll() { recording.removeAll() }
}

/// What a recorder has heard.
private final class Recording: Sendable {
    private struct RequestKey: Hashable {
        let operation: UInt64
        let request: Int
    }

    private struct Recorded {
        var pages: [UInt64: HARLog.Page] = [:]
        var entries: [HARLog.Entry] = []
        var open: [RequestKey: RequestHead] = [:]
        /// The places of the latest entries of operations that have not finished.
        var latest: [UInt64: Int] = [:]
    }

    private let recorded = Locked(Recorded())
    private let includesSecrets: Bool

    init(includesSecrets: Bool) { self.includesSecrets = includesSecrets }

    func take(_ events: [OperationEvent]) {
        recorded.withLock { recorded in
            for event in events { take(event, &recorded) }
        }
    }

    func log() -> HARLog {
        recorded.withLock { recorded in
            var log = HARLog()
            log.pages = recorded.pages.sorted { $0.key < $1.key }.map(\.value)
            log.entries = recorded.entries.enumerated().sorted {
                ($0.element.startedDate, $0.offset) < ($1.element.startedDate, $1.offset)
            }.map(\.element)
            return log
        }
    }

    func removeAll() { recorded.withLock { $0 = Recorded() } }

    private func take(_ event: OperationEvent, _ recorded: inout Recorded) {
        let number = event.operationNumber
        switch event.kind {
        case .requestStarted(let request, let head): recorded.open[RequestKey(operation: number, request: request)] = head
        case .requestEnded(let request, let response, let metrics):
            let head = recorded.open.removeValue(forKey: RequestKey(operation: number, request: request))
            guard let head, let metrics else { return }
            let maker = HARMaker(secrets: head.secrets, includesSecrets: includesSecrets)
            add(maker.entry(head, response, metrics, page: pageID(number)), of: event, &recorded)
        case .servedFromCache(let response, let metrics):
            let maker = HARMaker(secrets: event.secrets?.classifier ?? .standard, includesSecrets: includesSecrets)
            add(maker.entry(nil, response, metrics, page: pageID(number)), of: event, &recorded)
        case .finished(let outcome):
            recorded.pages[number]?.duration = event.time * 1000
            let latest = recorded.latest.removeValue(forKey: number)
            guard let latest, recorded.entries.indices.contains(latest), recorded.entries[latest].response.status == 0
            else { return }
            switch outcome {
            case .succeeded: break
            case .failed(let error): recorded.entries[latest].response.error = ErrorText.shown(error)
            case .cancelled: recorded.entries[latest].response.error = "cancelled"
            }
        default: break
        }
    }

    private func pageID(_ number: UInt64) -> String { "operation_\(number)" }

    private func add(_ entry: HARLog.Entry, of event: OperationEvent, _ recorded: inout Recorded) {
        let number = event.operationNumber
        recorded.latest[number] = recorded.entries.count
        recorded.entries.append(entry)
        guard recorded.pages[number] == nil else { return }
        recorded.pages[number] = HARLog.Page(
            id: entry.page, title: "\(entry.request.method) \(entry.request.url)", startedDate: event.origin.date)
    }
}
