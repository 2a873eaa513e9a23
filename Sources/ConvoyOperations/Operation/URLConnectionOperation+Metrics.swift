import ConvoyTransport
import Foundation

/// The metrics of an operation.
extension URLConnectionOperation {
    /// The waits and all requests of the operation. nil until it has finished, and unless `collectsMetrics` is set.
    /// Final when the operation's end is posted, like its results.
    public final var metrics: OperationMetrics? {
        guard lifecycle.value.state == .finished, let record = metricsRecord, collectsMetrics else { return nil }
        return record.metrics(retryCount: retryCount, before: transitionLog?.early ?? [])
    }

    /// Collects the metrics; nil if they are not collected. Takes no lock.
    final var metricsRecord: MetricsRecord? { metricsReference.object }

    /// Begins to collect metrics, if needed and not begun yet.
    final func beginMetrics() {
        guard !metricsReference.isSet, collectsMetrics, metricsReference.set(MetricsRecord()) else { return }
        openedLog.begin(with: self) { _, _ in }
        hearOfWaits()
    }

    /// Adds the requests of this operation to the metrics of another one, of which it is a part.
    final func addMetrics(to parent: URLConnectionOperation) {
        guard let record = parent.metricsRecord else { return }
        if metricsReference.set(MetricsRecord(partOf: record)) { openedLog.begin(with: self) { _, _ in } }
    }

    /// Begins to collect metrics, and to report to monitors, if new settings require it, and notes rare settings.
    final func beginToTell(_ settings: RequestSettings) {
        noteRareSettings(settings)
        guard settings.prepared.configuration.collectsMetrics else { return }
        if settings.values.collectsMetrics { beginMetrics() }
        if !settings.values.eventMonitors.isEmpty { beginStory() }
    }

    /// What a startable operation waits for, as far as it knows itself.
    var reasonToWait: WaitReason {
        guard isScheduled else { return .start }
        return areDependenciesFinished ? .slot : .dependencies
    }

    /// Notes that the operation was added to a queue, or has to wait there again.
    func noteWaiting() {
        guard metricsReference.isSet || storyReference.isSet else { return }
        willWait(for: reasonToWait)
    }
}
