import Foundation
import Synchronization
import Testing

@testable import ConvoyTransport

/// Tests that the events of a descriptor are not reported for a later descriptor with the same number.
@Suite struct StaleEventTests {
    private final class Handler: FileEventHandler {
        let handle: (Int32, FileEvents) -> Void
        init(_ handle: @escaping (Int32, FileEvents) -> Void) { self.handle = handle }
        func fileDescriptor(_ descriptor: Int32, isReadyFor events: FileEvents) { handle(descriptor, events) }
    }

    private struct Pair {
        var near: Int32 = -1
        var far: Int32 = -1

        init() throws {
            var ends: [Int32] = [-1, -1]
            try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
            (near, far) = (ends[0], ends[1])
        }

        func closeBoth() {
            close(near)
            close(far)
        }
    }

    /// A change that a handler makes to another descriptor that is ready in the same batch.
    enum Change: CaseIterable {
        /// Stops watching the descriptor, and reuses its number for an idle socket.
        case unwatchedAndReplaced
        /// Closes the descriptor without unwatching it, and reuses its number for an idle socket.
        case replaced
        /// Watches the descriptor for a different event.
        case changed
        case unwatched
    }

    /// Runs a loop on this thread, with one step per turn.
    private func run(_ loop: NetworkRunLoop, _ steps: [() -> Void]) {
        struct Script: @unchecked Sendable {
            let loop: NetworkRunLoop
            let steps: [() -> Void]
        }
        let script = Script(loop: loop, steps: steps)
        @Sendable func takeStep(_ index: Int) {
            guard index < script.steps.count else { return script.loop.stop() }
            script.steps[index]()
            script.loop.perform { takeStep(index + 1) }
        }
        loop.perform { takeStep(0) }
        loop.run()
    }

    @Test(arguments: Change.allCases)
    func `an event is not reported if its descriptor has changed`(change: Change) throws {
        let loop = try NetworkRunLoop()
        let (one, two, quiet) = (try Pair(), try Pair(), try Pair())
        defer { for pair in [one, two, quiet] { pair.closeBoth() } }
        // Both descriptors are ready before the loop first checks, so they are in one batch.
        #expect(write(one.far, "x", 1) == 1 && write(two.far, "x", 1) == 1)
        var first: [Int32] = []
        var wrong: [FileEvents] = []
        let late = Handler { _, events in wrong.append(events) }
        let handler = Handler { descriptor, _ in
            first.append(descriptor)
            var byte: UInt8 = 0
            _ = read(descriptor, &byte, 1)
            guard first.count == 1 else { return }
            let other = descriptor == one.near ? two.near : one.near
            switch change {
            case .unwatchedAndReplaced:
                try? loop.unwatch(other)
                dup2(quiet.near, other)
                try? loop.watch(other, for: .readable, handler: late)
            case .replaced:
                dup2(quiet.near, other)
                try? loop.watch(other, for: .readable, handler: late)
            case .changed:
                // The buffer of the socket is full, so it is not ready for writing.
                var flags = fcntl(other, F_GETFL)
                flags |= O_NONBLOCK
                _ = fcntl(other, F_SETFL, flags)
                let block = [UInt8](repeating: 0, count: 1 << 16)
                while write(other, block, block.count) > 0 {}
                try? loop.watch(other, for: .writable, handler: late)
            case .unwatched: try? loop.unwatch(other)
            }
        }
        try loop.watch(one.near, for: .readable, handler: handler)
        try loop.watch(two.near, for: .readable, handler: handler)
        var wrongAtFirst = -1
        run(
            loop,
            [
                {}, {}, { wrongAtFirst = wrong.count },
                // Events of the current descriptor are reported.
                { #expect(write(quiet.far, "x", 1) == 1) }, {}, {},
            ])
        #expect(first.count == 1)
        #expect(wrongAtFirst == 0)
        if change == .unwatchedAndReplaced || change == .replaced { #expect(!wrong.isEmpty) }
    }
}
