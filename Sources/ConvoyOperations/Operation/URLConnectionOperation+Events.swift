import ConvoyTransport
import Foundation
import Synchronization

/// Who hears what happens to an operation.
extension URLConnectionOperation {
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
