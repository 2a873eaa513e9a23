import ConvoyTransport
import Foundation

/// What an operation took.
extension URLConnectionOperation {
    /// What the operation took: its waits and all its requests. Nil until it has finished, and if nobody has asked for them
    /// by `collectsMetrics`. Final when the operation's end is posted, as its results are.
    public final var metrics: OperationMetrics? {
        guard lifecycle.value.state == .finished, let record = metricsRecord, collectsMetrics else { return nil }
        return record.metrics(retryCount: retryCount, before: transitionLog?.early ?? [])
    }

    /// What collects the metrics; nil if nobody wants them. Takes no lock.
    final var metricsRecord: MetricsRecord? { metricsReference.object }

    /// Begins to collect metrics, if they are wanted and are not collected yet.
    final func beginMetrics() {
        guard !metricsReference.isSet, collectsMetrics, metricsReference.set(MetricsRecord()) else { return }
        openedLog.begin(with: self) { _, _ in }
        hearOfWaits()
    }

    /// Adds the requests of this operation to the metrics of another one, for which it does a part of the work.
    final func addMetrics(to parent: URLConnectionOperation) {
        guard let record = parent.metricsRecord else { return }
        if metricsReference.set(MetricsRecord(partOf: record)) { openedLog.begin(with: self) { _, _ in } }
    }

    /// Begins to collect metrics, and to tell monitors, if new settings demand it, and notes what few settings have.
    final func beginToTell(_ settings: RequestSettings) {
        noteRareSettings(settings)
        guard settings.prepared.configuration.collectsMetrics else { return }
        if settings.values.collectsMetrics { beginMetrics() }
        if !settings.values.eventMonitors.isEmpty { beginStory() }
    }

    /// What the operation waits for that could be started, as far as it knows itself.
    var reasonToWait: WaitReason {
        guard isScheduled else { return .start }
        return areDependenciesFinished ? .slot : .dependencies
    }

    /// The operation has come into a queue, or has to wait there again.
    func noteWaiting() {
        guard metricsReference.isSet || storyReference.isSet else { return }
        willWait(for: reasonToWait)
    }
}
