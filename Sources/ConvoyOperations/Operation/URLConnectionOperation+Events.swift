import ConvoyTransport
import Foundation
import Synchronization

/// Who hears what happens to an operation.
extension URLConnectionOperation {
    /// Who hears what happens to the operation: those of the manager, and none by default, which costs nothing. To be set as
    /// soon as the operation is made: once anybody monitors it, changes have no effect.
    ///
    /// What they tell of the requests is measured as for ``metrics``, and operations with monitors share transfers
    /// (`coalescesIdenticalRequests`) only with others that are measured.
    public final var eventMonitors: [EventMonitor] {
        get { core.withLock { $0.common.values.eventMonitors } }
        set {
            set(\.eventMonitors, to: newValue)
            beginStory()
        }
    }

    /// The number that the operation has in the events that monitors hear; nil if there are none.
    public final var operationNumber: UInt64? { story?.number }

    /// What tells the monitors; nil if there are none. Takes no lock.
    final var story: OperationStory? { storyReference.object }

    /// Begins to tell the monitors, if there are any.
    final func beginStory() {
        guard !storyReference.isSet else { return }
        let monitors = eventMonitors
        guard !monitors.isEmpty else { return }
        let (log, story) = (openedLog, OperationStory(monitors: monitors, log: openedLog))
        guard storyReference.set(story) else { return }
        log.begin(with: self) { life, number in story.begin(after: number, isFinished: life.state == .finished) }
        hearOfWaits()
    }

    /// Tells the requests of this operation in the story of another one, for which it does a part of the work.
    final func addStory(to parent: URLConnectionOperation) {
        guard let story = parent.story else { return }
        if storyReference.set(OperationStory(partOf: story)) { openedLog.begin(with: self) { _, _ in } }
    }
}
