import ConvoyTransport
import Foundation
import Synchronization

/// Reports the events of an operation to its monitors.
extension URLConnectionOperation {
    /// The number of the operation in the events of monitors; nil without monitors.
    public final var operationNumber: UInt64? { story?.number }

    /// Reports to the monitors; nil without any. Takes no lock.
    final var story: OperationStory? { storyReference.object }

    /// Begins to report to the monitors, if there are any.
    final func beginStory() {
        guard !storyReference.isSet else { return }
        let monitors = eventMonitors
        guard !monitors.isEmpty else { return }
        let (log, story) = (openedLog, OperationStory(monitors: monitors, log: openedLog))
        guard storyReference.set(story) else { return }
        log.begin(with: self) { life, number in story.begin(after: number, isFinished: life.state == .finished) }
        hearOfWaits()
    }

    /// Reports the requests of this operation in the event log of another one, of which it is a part.
    final func addStory(to parent: URLConnectionOperation) {
        guard let story = parent.story else { return }
        if storyReference.set(OperationStory(partOf: story)) { openedLog.begin(with: self) { _, _ in } }
    }
}
