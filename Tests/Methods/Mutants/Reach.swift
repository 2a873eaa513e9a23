import Foundation

/// The mutants that each suite reaches, and the duration of each suite.
struct Reach: Codable {
    struct Suite: Codable {
        let name: String
        let usesXCTest: Bool
        let seconds: TimeInterval
        let passed: Bool
        /// The slots of the mutants that the suite reaches.
        let slots: Set<Int>

        var module: Substring { name.prefix { $0 != "." } }
    }

    var suites: [Suite] = []

    /// The time in seconds after which a suite is excluded.
    static let limit: TimeInterval = 60

    static func load(_ folder: URL) throws -> Reach {
        try JSONDecoder().decode(Reach.self, from: Data(contentsOf: folder.appendingPathComponent("reach.json")))
    }

    /// Runs every suite once without a mutant, two at a time. Suites that were already measured are skipped.
    static func measure(plan: Plan, folder: URL, binary: URL) throws {
        let file = folder.appendingPathComponent("reach.json")
        let shared = Shared((try? load(folder)) ?? Reach())
        let known = Set(shared.with { $0.suites.map(\.name) })
        let all = try suites(in: binary, usesXCTest: false) + suites(in: binary, usesXCTest: true)
        let names = all.filter { !known.contains($0.name) }
        let size = (plan.mutants.map(\.slot).max() ?? 0) + 1
        say("measuring \(names.count) suites")
        twoAtATime(names) { worker, item in
            let (name, usesXCTest) = item
            let map = folder.appendingPathComponent("reached-\(worker)")
            _ = FileManager.default.createFile(atPath: map.path, contents: Data(count: size))
            let result = TestProcess.run(
                binary, [name], usesXCTest: usesXCTest, environment: ["CONVOY_MUTANTS_REACHED": map.path],
                log: folder.appendingPathComponent("reach-\(worker).log"), limit: limit)
            let bytes = FileManager.default.contents(atPath: map.path) ?? Data()
            let slots = Set(bytes.indices.filter { bytes[$0] != 0 })
            var passed = false
            if case .passed(reachedEnd: true) = result.end { passed = true }
            if !passed { say("left out: \(name): \(result.end)") }
            let suite = Suite(name: name, usesXCTest: usesXCTest, seconds: result.seconds, passed: passed, slots: slots)
            shared.with { $0.suites.append(suite) }
            try? JSONEncoder().encode(shared.with { $0 }).write(to: file, options: .atomic)
        }
    }

    /// Returns the suites that reach a mutant: first those of its own module, each group sorted by duration.
    func suites(for mutant: Mutant) -> [Suite] {
        let module = mutant.file.split(separator: "/")[1] + "Tests"
        return suites.filter { $0.passed && $0.slots.contains(mutant.slot) }
            .sorted { ($0.module == module ? 0 : 1, $0.seconds) < ($1.module == module ? 0 : 1, $1.seconds) }
    }

    private static func suites(in binary: URL, usesXCTest: Bool) throws -> [(name: String, usesXCTest: Bool)] {
        let process = Process()
        process.executableURL = binary
        process.arguments = (usesXCTest ? [] : ["--testing-library", "swift-testing"]) + ["--list-tests"]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        let names = output.split(separator: "\n").compactMap { line in line.contains("/") ? line.prefix { $0 != "/" } : nil }
        return Set(names.map(String.init)).sorted().map { ($0, usesXCTest) }
    }
}

/// A value that two threads share.
final class Shared<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    init(_ value: Value) { self.value = value }

    func with<Result>(_ body: (inout Value) -> Result) -> Result { lock.withLock { body(&value) } }
}

/// Calls a closure for each item, with two workers.
func twoAtATime<Item: Sendable>(_ items: [Item], _ body: @escaping @Sendable (_ worker: Int, Item) -> Void) {
    let next = Shared(0)
    DispatchQueue.concurrentPerform(iterations: 2) { worker in
        while true {
            let index = next.with { value in
                defer { value += 1 }
                return value
            }
            guard index < items.count else { return }
            body(worker, items[index])
        }
    }
}
