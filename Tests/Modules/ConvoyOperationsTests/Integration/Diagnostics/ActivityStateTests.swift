import Foundation
import Testing

@testable import ConvoyDiagnostics
@testable import ConvoyOperations

/// The times at which activity is shown and hidden, in simulated time.
@Suite struct ActivityStateTests {
    /// The state machine with its own clock, in milliseconds.
    private struct Simulation {
        var state = ActivityState()
        var now = 0
        /// The times at which activity was shown and hidden.
        var shown: [String] = []
        /// The running delays, including those that no longer apply.
        var timers: [(due: Int, number: UInt)] = []

        mutating func occur(_ isOccurring: Bool, at time: Int) {
            advance(to: time)
            carryOut(state.setOccurring(isOccurring))
        }

        mutating func advance(to time: Int) {
            while let next = timers.filter({ $0.due <= time }).min(by: { $0.due < $1.due }) {
                timers.removeAll { $0.number == next.number }
                now = next.due
                carryOut(state.delayDidPass(next.number))
            }
            now = time
        }

        mutating func reset(at time: Int) {
            advance(to: time)
            carryOut(state.reset())
        }

        private mutating func carryOut(_ action: ActivityState.Effect) {
            switch action {
            case .nothing: break
            case .wait(let delay, let number): timers.append((now + (delay == .activation ? 1000 : 170), number))
            case .show: shown.append("show \(now)")
            case .hide: shown.append("hide \(now)")
            }
        }
    }

    @Test func `lasting activity is shown after a second and hidden shortly after its end`() {
        var simulation = Simulation()
        simulation.occur(true, at: 0)
        #expect(simulation.state.phase == .delayingStart && !simulation.state.isVisible)
        simulation.occur(false, at: 3000)
        #expect(simulation.state.phase == .delayingEnd && simulation.state.isVisible)
        simulation.advance(to: 9000)
        #expect(simulation.shown == ["show 1000", "hide 3170"] && simulation.state.phase == .notActive)
    }

    @Test func `activity shorter than a second is never shown`() {
        var simulation = Simulation()
        for start in stride(from: 0, to: 20_000, by: 2000) {
            simulation.occur(true, at: start)
            simulation.occur(false, at: start + 900)
        }
        simulation.advance(to: 30_000)
        #expect(simulation.shown.isEmpty)
    }

    @Test func `a gap shorter than the hide delay does not hide the indicator`() {
        var simulation = Simulation()
        simulation.occur(true, at: 0)
        for time in stride(from: 2000, to: 6000, by: 200) {
            simulation.occur(false, at: time)
            simulation.occur(true, at: time + 169)
        }
        simulation.occur(false, at: 7000)
        simulation.advance(to: 9000)
        #expect(simulation.shown == ["show 1000", "hide 7170"])
    }

    @Test func `activity that restarts during the show delay is shown when the first delay expires`() {
        var simulation = Simulation()
        simulation.occur(true, at: 0)
        simulation.occur(false, at: 300)
        simulation.occur(true, at: 600)
        simulation.advance(to: 2000)
        #expect(simulation.shown == ["show 1000"])
    }

    @Test(arguments: [500, 1500, 2100]) func `a reset hides the indicator immediately and drops pending delays`(time: Int) {
        var simulation = Simulation()
        simulation.occur(true, at: 0)
        if time > 2000 { simulation.occur(false, at: 2000) }
        simulation.reset(at: time)
        #expect(simulation.state.phase == .notActive && !simulation.state.isOccurring)
        simulation.occur(true, at: 5000)
        simulation.advance(to: 5999)
        #expect(simulation.shown == (time == 500 ? [] : ["show 1000", "hide \(time)"]))
        simulation.advance(to: 6000)
        #expect(simulation.shown.last == "show 6000")
    }

    @Test func `the indicator is shown and hidden in turn, and never shown without activity`() {
        for seed in 0..<300 {
            var random = SeededRandom(UInt64(seed))
            var simulation = Simulation()
            var changes: [(time: Int, isOccurring: Bool)] = []
            var time = 0
            for _ in 0..<40 {
                time += Int.random(in: 0...1500, using: &random)
                let isOccurring = Bool.random(using: &random)
                changes.append((time, isOccurring))
                simulation.occur(isOccurring, at: time)
            }
            simulation.occur(false, at: time)
            simulation.advance(to: time + 5000)
            #expect(!simulation.state.isVisible && simulation.timers.isEmpty)
            let kinds = simulation.shown.map { $0.hasPrefix("show") }
            #expect(kinds == kinds.indices.map { $0 % 2 == 0 }, "seed \(seed)")
            for text in simulation.shown {
                let at = Int(text.dropFirst(5)) ?? 0
                let isOccurring = changes.last { $0.time < at }?.isOccurring ?? false
                let isOccurringJustNow = changes.last { $0.time <= at }?.isOccurring ?? false
                if text.hasPrefix("show") { #expect(isOccurring || isOccurringJustNow, "seed \(seed), \(text)") }
                if text.hasPrefix("hide"), at <= time {
                    #expect(!isOccurring || !isOccurringJustNow, "seed \(seed), \(text)")
                }
            }
        }
    }
}

/// A generator that returns the same numbers for the same seed.
private struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }

    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state
    }
}
