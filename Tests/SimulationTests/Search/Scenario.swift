import Foundation

/// What happens in a simulation, except for the order: a value that can be printed and read, and made simpler.
protocol Scenario: Codable, Sendable {
    /// Scenarios with one thing less each.
    var simpler: [Self] { get }

    /// Lets it happen, in the order that `pick` picks, and checks the promises.
    ///
    /// - Parameters:
    ///   - tells: whether the steps are told.
    ///   - pick: picks one of several steps.
    func play(tells: Bool, _ pick: (Int) -> Int) -> Play
}

/// How a scenario went.
struct Play {
    /// What was promised, and was not kept; nil if all was.
    var fault: Fault?
    var stepCount = 0
    /// What was done, if it was to be told.
    var steps: [String] = []
}

/// A promise that was not kept.
struct Fault: Equatable {
    /// Which one.
    let promise: String
    let text: String

    init(_ promise: String, _ text: String = "") { (self.promise, self.text) = (promise, text) }
}

/// One order of the steps of a scenario: the number of the step that is taken, wherever there are several. Behind the
/// last number it is always the first of them.
struct Schedule<Story: Scenario>: Codable {
    var scenario: Story
    var picks: [Int]

    /// Plays it, and returns the picks that were made, with the number of steps that there were.
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

    /// In one line, to be read again.
    var text: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(self) else { return "" }
        return String(decoding: data, as: UTF8.self)
    }

    init(_ scenario: Story, _ picks: [Int] = []) { (self.scenario, self.picks) = (scenario, picks) }

    init(text: String) throws { self = try JSONDecoder().decode(Self.self, from: Data(text.utf8)) }
}
