import ConvoyTestSupport
import Foundation

/// A schedule that breaks a promise, simplified as far as possible.
struct Finding<Story: Scenario> {
    let schedule: Schedule<Story>
    let fault: Fault
    let steps: [String]
    /// The number of schedules played before this schedule was found.
    let plays: Int

    var text: String {
        """
        \(fault.promise): \(fault.text)
        found after \(plays) schedules; replay it by CONVOY_SCHEDULE='\(schedule.text)'
        \(steps.enumerated().map { "  \($0 + 1). \($1)" }.joined(separator: "\n"))
        """
    }
}

/// Searches for a schedule that breaks a promise.
struct Search<Story: Scenario> {
    /// The number of schedules played.
    private(set) var plays = 0
    /// The number of scenarios played in all orders, without a bound.
    private(set) var wholeCount = 0
    /// The longest schedule, in steps.
    private(set) var mostSteps = 0

    /// Plays a scenario in all orders of its first steps.
    ///
    /// - Parameters:
    ///   - depth: The number of points with several steps at which each step is tried. Afterwards the first step is
    ///     always taken.
    ///   - end: When to give up.
    mutating func tryAll(
        _ scenario: Story, depth: Int, until end: ContinuousClock.Instant = .now + .seconds(3600)
    ) -> Finding<Story>? {
        var picks: [Int] = []
        var isWhole = true
        while true {
            let schedule = Schedule(scenario, picks)
            let (play, made) = schedule.play()
            note(play)
            if let fault = play.fault { return found(Schedule(scenario, made.map(\.picked)), fault) }
            if made.count > depth { isWhole = false }
            // Find the last point with a step that was not tried.
            var place = min(made.count, depth) - 1
            while place >= 0, made[place].picked == made[place].of - 1 { place -= 1 }
            guard place >= 0 else { break }
            guard ContinuousClock.now < end else {
                isWhole = false
                break
            }
            picks = made[..<place].map(\.picked) + [made[place].picked + 1]
        }
        if isWhole { wholeCount += 1 }
        return nil
    }

    /// Plays a scenario in a random order.
    mutating func tryOne(_ scenario: Story, _ random: inout SplitMix64) -> Finding<Story>? {
        var picks: [Int] = []
        var generator = random
        let play = scenario.play(tells: false) { count in
            let picked = Int.random(in: 0..<count, using: &generator)
            picks.append(picked)
            return picked
        }
        random = generator
        note(play)
        return play.fault.map { found(Schedule(scenario, picks), $0) }
    }

    private mutating func note(_ play: Play) {
        plays += 1
        mostSteps = max(mostSteps, play.stepCount)
    }

    private func found(_ schedule: Schedule<Story>, _ fault: Fault) -> Finding<Story> {
        let shrunk = Shrinker(schedule, fault).shrunk
        let (play, _) = shrunk.play(tells: true)
        return Finding(schedule: shrunk, fault: play.fault ?? fault, steps: play.steps, plays: plays)
    }
}

/// Simplifies a schedule as long as it breaks the same promise.
struct Shrinker<Story: Scenario> {
    private(set) var shrunk: Schedule<Story>
    private let promise: String
    /// The maximum number of schedules to play.
    private var left = 4000

    init(_ schedule: Schedule<Story>, _ fault: Fault) {
        (shrunk, promise) = (schedule, fault.promise)
        var goesOn = true
        while goesOn, left > 0 {
            goesOn = dropThings()
            goesOn = shorten() || goesOn
            goesOn = dropPicks() || goesOn
            goesOn = lowerPicks() || goesOn
        }
        // Trailing picks of the first step can be omitted.
        while shrunk.picks.last == 0 { shrunk.picks.removeLast() }
    }

    /// Accepts a schedule if it breaks the promise.
    private mutating func take(_ schedule: Schedule<Story>) -> Bool {
        guard left > 0 else { return false }
        left -= 1
        let (play, made) = schedule.play()
        guard play.fault?.promise == promise else { return false }
        var picks = made.map(\.picked)
        while picks.last == 0 { picks.removeLast() }
        shrunk = Schedule(schedule.scenario, picks)
        return true
    }

    private mutating func dropThings() -> Bool {
        var hasChanged = false
        var index = 0
        var candidates = shrunk.scenario.simpler
        while index < candidates.count, left > 0 {
            if take(Schedule(candidates[index], shrunk.picks)) || take(Schedule(candidates[index])) {
                hasChanged = true
                // The next element is at the same index now.
                candidates = shrunk.scenario.simpler
            } else {
                index += 1
            }
        }
        return hasChanged
    }

    private mutating func shorten() -> Bool {
        var hasChanged = false
        var length = shrunk.picks.count / 2
        while length < shrunk.picks.count, left > 0 {
            if take(Schedule(shrunk.scenario, Array(shrunk.picks.prefix(length)))) { hasChanged = true }
            length += max(1, (shrunk.picks.count - length) / 2)
        }
        return hasChanged
    }

    private mutating func dropPicks() -> Bool {
        var hasChanged = false
        var index = shrunk.picks.count - 1
        while index >= 0, left > 0 {
            if index < shrunk.picks.count {
                var picks = shrunk.picks
                picks.remove(at: index)
                if take(Schedule(shrunk.scenario, picks)), shrunk.picks.count < picks.count + 1 { hasChanged = true }
            }
            index -= 1
        }
        return hasChanged
    }

    private mutating func lowerPicks() -> Bool {
        var hasChanged = false
        for index in shrunk.picks.indices where index < shrunk.picks.count && shrunk.picks[index] > 0 {
            let old = shrunk.picks
            for lower in 0..<old[index] where left > 0 {
                var picks = old
                picks[index] = lower
                if take(Schedule(shrunk.scenario, picks)) {
                    hasChanged = true
                    break
                }
            }
        }
        return hasChanged
    }
}
