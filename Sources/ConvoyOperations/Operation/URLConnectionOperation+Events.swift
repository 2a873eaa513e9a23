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
        let story = OperationStory(monitors: monitors)
        guard storyReference.set(story) else { return }
        // From here on every change is reported.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        let (life, number) = lifecycle.current
        story.begin(after: number, isFinished: life.state == .finished)
        hearOfWaits()
    }

    /// Tells the requests of this operation in the story of another one, for which it does a part of the work.
    final func addStory(to parent: URLConnectionOperation) {
        guard let story = parent.story else { return }
        _ = storyReference.set(OperationStory(partOf: story))
    }

    func note(_ transition: AtomicLifecycle.Transition, in story: OperationStory) {
        story.note(transition, whenReady: reasonToWait, outcome: outcome(of: transition.new))
    }

    private func outcome(of life: Lifecycle) -> OperationOutcome {
        if life.isCancelled { return .cancelled }
        return error.map { .failed($0) } ?? .succeeded
    }
}
