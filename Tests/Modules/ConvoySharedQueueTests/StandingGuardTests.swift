import ConvoyDownloads
import Foundation
import Testing

@testable import ConvoySharedQueue

/// The conditions under which the state machine of an entry refuses or redirects a change.
@Suite struct StandingGuardTests {
    private typealias Subject = WorkStandingTests.Subject
    private let worker = UUID()

    private func leased(sendsAgain: Bool = true) -> Subject {
        let standing = Subject()
        (standing.maximumAttempts, standing.sendsAgain) = (3, sendsAgain)
        _ = standing.apply(.claim(worker: worker), now: 1)
        return standing
    }

    @Test("an entry that may have been sent is not released, but fails")
    func releaseAfterBeginning() {
        let standing = leased(sendsAgain: false)
        #expect(standing.apply(.begin(lease: 1), now: 2))
        #expect(standing.apply(.release(worker: worker, lease: 1), now: 3))
        #expect(standing.state == .failed)
        #expect(standing.error == WorkStanding.unknownOutcome)
    }

    @Test("no attempt begins after the deadline", arguments: [WorkState.ready, .waiting, .retrying])
    func deadline(state: WorkState) {
        let standing = Subject()
        (standing.state, standing.deadline, standing.maximumAttempts) = (state, 100, 5)
        #expect(standing.apply(state == .ready ? .claim(worker: worker) : .becomeDue, now: 100))
        #expect(standing.state == .failed)
        #expect(standing.worker == nil)
        #expect(standing.attempts == 0)
    }

    @Test("an expired or released lease does not extend the deadline")
    func deadlineOfLease() {
        for change in [WorkStanding.Change.expire, .release(worker: worker, lease: 1)] {
            let standing = leased()
            standing.deadline = 50
            #expect(standing.apply(change, now: 60))
            #expect(standing.state == .failed)
        }
    }

    @Test("an entry waits again if a dependency is reopened", arguments: [WorkState.ready, .waiting, .retrying])
    func reopenedDependency(state: WorkState) {
        let standing = Subject()
        (standing.state, standing.policy, standing.failedDependencies, standing.due) = (state, .run, 1, 10)
        #expect(standing.apply(.dependencies(open: 1, failed: -1), now: 5))
        #expect(standing.state == .held)
        #expect(!standing.apply(.becomeDue, now: 20))
        #expect(standing.apply(.dependencies(open: -1, failed: 0), now: 20))
        #expect(standing.state == .ready)
    }

    @Test("an entry whose dependency was reopened during its attempt waits before the next one")
    func reopenedDuringAttempt() {
        for change in [WorkStanding.Change.expire, .release(worker: worker, lease: 1)] {
            let standing = leased()
            #expect(standing.apply(.dependencies(open: 1, failed: 0), now: 2))
            #expect(standing.state == .leased)
            #expect(standing.apply(change, now: 3))
            #expect(standing.state == .held)
        }
        let standing = leased()
        #expect(standing.apply(.dependencies(open: 1, failed: 0), now: 2))
        let report = WorkReport(id: UUID(), worker: worker, lease: 1, end: .failedForNow(delay: 5))
        #expect(standing.apply(.report(report), now: 3))
        #expect(standing.state == .held)
    }
}
