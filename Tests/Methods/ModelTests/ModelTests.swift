import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyOperations
@testable import ConvoySharedQueue
@testable import ConvoyTransport

/// The state machines as models, of which spin checks every interleaving. A machine's transitions are a table generated
/// from its own function, so that model and code cannot differ. The environment (callers, queues, workers, delayed
/// actions) is in the folder `Models`.
///
/// `CONVOY_MODELS=all` runs longer models, and breaks one promise after another, which must be detected: `Tests/long
/// models`.
@Suite(.enabled(if: Spin.isInstalled, "spin or cc is not installed: apt-get install spin gcc"))
struct ModelTests {
    private static let isWhole = ProcessInfo.processInfo.environment["CONVOY_MODELS"] == "all"

    private static let lifecycleClaims = ["ends", "cancels", "final", "slots", "groups", "releases"]
    private static let transferClaims = ["ends", "once", "stops"]
    private static let entryClaims = ["unsent", "final", "ends"]

    /// Returns the claims that the model violates.
    private func violations(
        _ model: String, _ table: ModelTable, _ claims: [String], _ defines: [String: Int] = [:],
        showsTrail: Bool = true
    ) throws -> [String] {
        let spin = try Spin(model, table: table, defines: defines)
        return try claims.filter { claim in
            let result = try spin.check(claim)
            print(
                "\(model) \(claim) \(defines): \(result.errors) errors in \(result.states) states, of a table of \(table.stateCount)"
            )
            // Print the trail if the error is unexpected.
            if result.errors > 0, showsTrail { print(try spin.trail(claim)) }
            return result.errors > 0
        }
    }

    /// Whether the operation is in a queue, and whether its attempt may be held.
    private static let lifecycleCases = isWhole ? [(0, 0), (0, 1), (1, 0), (1, 1)] : [(0, 1), (1, 0)]

    @Test(arguments: lifecycleCases)
    func `an operation keeps its promises in every interleaving`(_ queued: Int, _ held: Int) throws {
        let defines = ["QUEUED": queued, "STEPS": Self.isWhole ? 3 : 2, "RETRIES": 1, "HELD": held]
        let claims = Self.isWhole ? Self.lifecycleClaims : ["ends", "cancels", "slots"]
        #expect(try violations("lifecycle", .lifecycle(), claims, defines) == [])
    }

    @Test(arguments: [0, 1]) func `a transfer ends in every interleaving and loses nothing`(_ pauses: Int) throws {
        let defines = ["BYTES": 2, "HOLDS": Self.isWhole ? 2 : 1, "PAUSES": pauses]
        #expect(try violations("transfer", .transfer(), Self.transferClaims, defines) == [])
    }

    @Test(arguments: [true, false]) func `an entry of a shared queue is sent no more often than allowed`(
        _ sendsAgain: Bool
    ) throws {
        let defines = ["STEPS": Self.isWhole ? 3 : 2]
        #expect(try violations("entry", .entry(sendsAgain: sendsAgain), Self.entryClaims, defines) == [])
    }

    // MARK: Promises that are broken on purpose

    private static let lifecycleBreaks: [(name: String, isHeld: Bool, change: ModelTable.LifecycleBreak)] = [
        (
            "a held attempt is not released", true,
            { _, _, _, action in if case .release = action { action = .nothing } }
        ),
        ("a stop is lost", false, { _, _, _, action in if case .stop = action { action = .nothing } }),
        (
            "a finished operation finishes again", false,
            { old, event, _, action in if old.state == .finished, event == .cancel { action = .finish } }
        ),
        (
            "a stopped attempt is not followed by the next one", false,
            { _, event, _, action in
                if case .workStopped = event, case .begin = action { action = .nothing }
            }
        ),
        (
            "the retry is forgotten", false,
            { old, event, new, action in
                if case .retryDue = event, action == .restart { (new, action) = (old, .nothing) }
            }
        ),
        (
            "a paused operation keeps its slot", false,
            { _, _, _, action in if case .stopAndFreeSlot(let number) = action { action = .stop(number) } }
        ),
        (
            "a late outcome counts", false,
            { old, event, new, action in
                guard case .workStopped = event, old.state == .executing, old.work == .stopping, old.isEnding else { return }
                (new, action) = (old, .nothing)
            }
        ),
        (
            "an attempt begins before the last one has stopped", false,
            { old, event, new, action in
                guard event == .start, old.state == .ready, old.work == .stopping, !old.isEnding, !old.isBackingOff else {
                    return
                }
                var other = Lifecycle(bits: old.bits & ~(7 << 2))
                action = other.handle(.start)
                new = other
            }
        ),
    ]

    @Test(.enabled(if: isWhole, "CONVOY_MODELS=all breaks promises on purpose"), arguments: lifecycleBreaks.indices)
    func `a broken promise of an operation is detected`(_ index: Int) throws {
        let (name, isHeld, change) = Self.lifecycleBreaks[index]
        let found = try violations(
            "lifecycle", .lifecycle(breaking: change), Self.lifecycleClaims,
            ["QUEUED": 1, "STEPS": 2, "RETRIES": 1, "HELD": isHeld ? 1 : 0], showsTrail: false)
        #expect(!found.isEmpty, "\(name)")
        print("\(name): \(found)")
    }

    private static let transferBreaks: [(name: String, change: ModelTable.TransferBreak)] = [
        (
            "a lifted hold does not resume it",
            { _, event, _, action in
                if case .lift = event, case .run = action { action = .nothing }
            }
        ),
        ("bytes are not drained", { _, _, _, action in if action == .drain { action = .nothing } }),
        (
            "the end does not wait for buffered bytes",
            { old, event, new, action in
                guard event == .end, old.hasKept, !old.isOver else { return }
                new = old
                _ = new.handle(.stop)
                action = .end
            }
        ),
        ("it stalls although bytes arrive", { _, event, _, action in if event == .fed { action = .nothing } }),
        ("it ends twice", { old, event, _, action in if old.isOver, event == .stop { action = .stopped } }),
    ]

    @Test(.enabled(if: isWhole, "CONVOY_MODELS=all breaks promises on purpose"), arguments: transferBreaks.indices)
    func `a broken promise of a transfer is detected`(_ index: Int) throws {
        let (name, change) = Self.transferBreaks[index]
        let found = try violations(
            "transfer", .transfer(breaking: change), Self.transferClaims, ["BYTES": 2, "HOLDS": 1], showsTrail: false)
        #expect(!found.isEmpty, "\(name)")
        print("\(name): \(found)")
    }

    private static let entryBreaks: [(name: String, change: ModelTable.EntryBreak)] = [
        (
            "a possibly sent request is sent again",
            { old, change, new, isAccepted in
                guard case .expire = change, isAccepted, old.hasBegun else { return }
                var other = old
                other.hasBegun = false
                isAccepted = other.apply(.expire, now: 0)
                new = other
            }
        ),
        (
            "a lost lease reports",
            { old, change, new, isAccepted in
                guard case .report(var report) = change, !isAccepted, old.state == .leased, let worker = old.worker else {
                    return
                }
                (report.lease, report.worker) = (old.lease, worker)
                isAccepted = new.apply(.report(report), now: 0)
            }
        ),
        (
            "a lease is not taken back",
            { old, change, new, isAccepted in
                if case .expire = change { (new, isAccepted) = (old, false) }
            }
        ),
        (
            "success can be retried",
            { old, change, new, isAccepted in
                guard case .retry = change, old.state == .done else { return }
                new.state = .ready
                isAccepted = true
            }
        ),
    ]

    @Test(.enabled(if: isWhole, "CONVOY_MODELS=all breaks promises on purpose"), arguments: entryBreaks.indices)
    func `a broken promise of an entry is detected`(_ index: Int) throws {
        let (name, change) = Self.entryBreaks[index]
        let found = try violations(
            "entry", .entry(sendsAgain: false, breaking: change), Self.entryClaims, ["STEPS": 2], showsTrail: false)
        #expect(!found.isEmpty, "\(name)")
        print("\(name): \(found)")
    }
}

/// A model compiled into a program by spin.
struct Spin {
    struct Failure: Error, CustomStringConvertible { let description: String }

    static let isInstalled = (try? ProcessRunner.run("sh", ["-c", "command -v spin && command -v cc"]))?.status == 0

    private let folder: TemporaryDirectory

    init(_ model: String, table: ModelTable, defines: [String: Int]) throws {
        folder = try TemporaryDirectory(prefix: "convoy-model")
        let source = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
            "Models/\(model).pml")
        try Data(contentsOf: source).write(to: folder.url.appendingPathComponent("\(model).pml"))
        try Data(table.definitions.utf8).write(to: folder.url.appendingPathComponent("\(model).h"))
        try Data(table.tables.utf8).write(to: folder.url.appendingPathComponent("tables.h"))
        let flags = defines.map { "-D\($0.key)=\($0.value)" }.joined(separator: " ")
        try run("spin \(flags) -a \(model).pml && cc -O1 -w -DNFAIR=3 -DVECTORSZ=2048 -DCOLLAPSE -o pan pan.c")
    }

    /// Checks a claim in all interleavings.
    func check(_ claim: String) throws -> (errors: Int, states: Int) {
        let text = try run("./pan -a -f -m2000000 -w24 -N \(claim)")
        guard let errors = text.firstMatch(of: /errors: (\d+)/)?.1,
            let states = text.firstMatch(of: /(\d+) states, stored/)?.1
        else {
            throw Failure(description: "pan said: \(text)")
        }
        if text.contains("max search depth too small") || text.contains("out of memory") {
            throw Failure(description: "the model was not checked completely: \(text)")
        }
        return (Int(errors) ?? .max, Int(states) ?? 0)
    }

    /// Returns the steps that lead to the error found by `check`.
    func trail(_ claim: String) throws -> String { try run("./pan -r -n -N \(claim) | tail -n 120 || true") }

    @discardableResult private func run(_ command: String) throws -> String {
        let result = try ProcessRunner.run("sh", ["-c", "cd '\(folder.url.path)' && \(command) 2>&1"], timeout: 600)
        guard result.status == 0 else { throw Failure(description: "\(command): \(result.text)") }
        return result.text
    }
}
