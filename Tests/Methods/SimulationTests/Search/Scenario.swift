import Foundation

/// The content of a simulation except for the order of steps, as a value that can be printed, parsed and simplified.
protocol Scenario: Codable, Sendable {
    /// The scenarios with one element less.
    var simpler: [Self] { get }

    /// Plays the scenario in the order chosen by `pick`, and checks the promises.
    ///
    /// - Parameters:
    ///   - tells: Whether to record the steps.
    ///   - pick: Picks one of several steps.
    func play(tells: Bool, _ pick: (Int) -> Int) -> Play
}

/// The result of playing a scenario.
struct Play {
    /// The promise that was broken; nil if all were kept.
    var fault: Fault?
    var stepCount = 0
    /// The steps taken, if recorded.
    var steps: [String] = []
}

/// A promise that was broken.
struct Fault: Equatable {
    /// The name of the promise.
    let promise: String
    let text: String

    init(_ promise: String, _ text: String = "") { (self.promise, self.text) = (promise, text) }
}

/// One order of the steps of a scenario: the index of each step taken when several are available. After the last index,
/// the first step is always taken.
struct Schedule<Story: Scenario>: Codable {
    var scenario: Story
    var picks: [Int]

    /// Plays the schedule. Returns the picks that were made, each with the number of available steps.
    func play(tells: Bool = false) -> (play: Play, picks: [(picked: Int, of: Int)]) {
        var made: [(picked: Int, of: Int)] = []
        let play = scenario.play(tells: tells) { count in
            let wanted = made.count < picks.count ? picks[made.count] : 0
            let picked = min(wanted, count - 1)
            made.append((picked, count))
            return picked
        }
        return (play, made)
    }

    /// The schedule on one line, to be parsed again.
    var text: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(self) else { return "" }
        return String(decoding: data, as: UTF8.self)
    }

    init(_ scenario: Story, _ picks: [Int] = []) { (self.scenario, self.picks) = (scenario, picks) }

    init(text: String) throws { self = try JSONDecoder().decode(Self.self, from: Data(text.utf8)) }
}
