import ConvoyTestSupport
import Foundation
import Testing

/// Searches for orders of steps that break a promise, and records them.
///
/// `CONVOY_SCHEDULE` plays one schedule, as printed by a failed test. `CONVOY_SEED` draws the same scenarios again.
/// `CONVOY_ORDERS`, `CONVOY_CALLS` and `CONVOY_DEPTH` set the number to try.
enum OrderTests {
    private static func number(_ name: String, _ usual: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? usual
    }

    /// The number of user calls in the scenarios of which all orders are tried.
    static var calls: Int { number("CONVOY_CALLS", 2) }

    /// Tries all orders of scenarios, up to a depth.
    static func tryAll<Story: Scenario>(_ scenarios: [Story]) {
        var search = Search<Story>()
        let depth = number("CONVOY_DEPTH", 3)
        let start = ContinuousClock.now
        for scenario in scenarios {
            guard let finding = search.tryAll(scenario, depth: depth) else { continue }
            Issue.record("\(finding.text)")
            return
        }
        print(
            "\(Story.self): \(scenarios.count) scenarios, \(search.plays) orders of up to \(search.mostSteps) steps, "
                + "to a depth of \(depth), in \(ContinuousClock.now - start)")
    }

    /// Tries random orders of scenarios.
    ///
    /// - Parameters:
    ///   - share: The divisor of the number of scenarios to try.
    ///   - draw: Draws a scenario.
    static func tryRandom<Story: Scenario>(share: Int = 1, _ draw: (inout SplitMix64) -> Story) throws {
        if let text = ProcessInfo.processInfo.environment["CONVOY_SCHEDULE"] {
            return replay(try? Schedule<Story>(text: text))
        }
        var random = SplitMix64.printingSeed(of: "\(Story.self)")
        var search = Search<Story>()
        let start = ContinuousClock.now
        for _ in 0..<number("CONVOY_ORDERS", 1500) / share {
            let scenario = draw(&random)
            guard let finding = search.tryOne(scenario, &random) else { continue }
            Issue.record("\(finding.text)")
            return
        }
        print(
            "\(Story.self): \(search.plays) random orders of up to \(search.mostSteps) steps, in \(ContinuousClock.now - start)"
        )
    }

    private static func replay<Story: Scenario>(_ schedule: Schedule<Story>?) {
        guard let (play, _) = schedule?.play(tells: true) else { return print("CONVOY_SCHEDULE does not fit \(Story.self)") }
        for (index, step) in play.steps.enumerated() { print("\(index + 1). \(step)") }
        #expect(play.fault == nil)
    }
}
