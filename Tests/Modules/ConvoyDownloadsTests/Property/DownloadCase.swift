import ConvoyTestServer
import ConvoyTestSupport
import Foundation

/// A download with all events during it, determined by the seed and the number.
struct DownloadCase: Sendable, CustomStringConvertible {
    enum Sameness: String, CaseIterable, Sendable {
        /// The mirror has the same file.
        case same
        /// The mirror has a different file of the same length.
        case other
        /// The mirror has a different file of a different length.
        case otherLength
    }

    struct Mirror: Sendable {
        var behaviour: ServerBehaviour
        var sameness: Sameness
    }

    /// An event of an operation after some bytes.
    enum Event: Sendable {
        case pause(gap: Int)
        case cancel
    }

    /// The changes between the operations.
    enum World: String, CaseIterable, Sendable {
        case calm
        /// The disk disappears during each operation while the system keeps running: unsynchronized changes may be
        /// lost.
        case pulled
        /// The server can predict the names of the files beside a download, and suggests some of them.
        case planted
        /// Only some of the operations have checksums and mirrors.
        case changing
    }

    let seed: UInt64
    let number: Int
    let world: World
    /// The checksums and mirrors available to each operation.
    let knowledge: [(checksum: Bool, pieces: Bool, mirrors: Bool)]
    let behaviour: ServerBehaviour
    let mirrors: [Mirror]
    let size: Int
    let slice: Int
    let delay: TimeInterval
    let segments: Int
    let minimumSegment: Int64
    let retries: Bool
    let replaces: Bool
    /// The byte counts and events of the operations that follow each other at one destination.
    let operations: [[(offset: Int64, event: Event)]]

    init(seed: UInt64, number: Int, behaviours: [ServerBehaviour]) {
        var random = SplitMix64(seed: seed &+ UInt64(truncatingIfNeeded: number) &* 0xA24B_AED4_963E_E407)
        _ = random.next()
        self.seed = seed
        self.number = number
        behaviour = behaviours[number % max(1, behaviours.count)]
        let mirrorCount = Self.pick([0, 0, 1, 2], &random)
        var mirrors: [Mirror] = []
        for _ in 0..<mirrorCount {
            let isHonest = Bool.random(using: &random)
            mirrors.append(
                Mirror(
                    behaviour: isHonest ? .honest : Self.pick(behaviours, &random),
                    sameness: Self.pick([.same, .same, .other, .otherLength], &random)))
        }
        self.mirrors = mirrors
        size = Self.pick([0, 1, 2, 700, 5_000, 60_000, 150_000, 400_000], &random)
        slice = max(Self.pick([1_000, 4_096, 16_384], &random), size / 40)
        delay = Self.pick([0, 0, 0.0005, 0.002], &random)
        segments = Self.pick([1, 1, 2, 3, 4, 8], &random)
        minimumSegment = Self.pick([1, 300, 2_000, 20_000], &random)
        retries = Bool.random(using: &random)
        let knowsChecksum = Int.random(in: 0..<3, using: &random) == 0
        let knowsPieces = knowsChecksum && Bool.random(using: &random)
        replaces = Int.random(in: 0..<3, using: &random) == 0
        _ = Bool.random(using: &random)
        let size = size
        var operations: [[(offset: Int64, event: Event)]] = []
        for _ in 0..<Self.pick([1, 2, 2, 3], &random) {
            var events: [(offset: Int64, event: Event)] = []
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let offset = Int64.random(in: 0...Int64(max(1, size)), using: &random)
                events.append((offset, .pause(gap: Self.pick([0, 0, 500, 3_000], &random))))
            }
            events.sort { $0.offset < $1.offset }
            if Int.random(in: 0..<3, using: &random) == 0 {
                events.append((Int64.random(in: 0...Int64(max(1, size)), using: &random), .cancel))
            }
            operations.append(events)
        }
        self.operations = operations
        let world = Self.pick([.calm, .calm, .pulled, .planted, .changing] as [World], &random)
        self.world = world
        var knowledge: [(checksum: Bool, pieces: Bool, mirrors: Bool)] = []
        for _ in operations {
            let isKnown = world == .changing ? Bool.random(using: &random) : knowsChecksum
            knowledge.append(
                (isKnown, isKnown && knowsPieces, world != .changing || Bool.random(using: &random)))
        }
        self.knowledge = knowledge
    }

    private static func pick<Value>(_ values: [Value], _ random: inout SplitMix64) -> Value {
        values[Int.random(in: 0..<values.count, using: &random)]
    }

    private var all: [ServerBehaviour] { [behaviour] + mirrors.map(\.behaviour) }

    /// The idle timeout of a request, in seconds; short only for a server that stalls.
    var timeout: TimeInterval { all.contains { $0 == .stalls || $0 == .answersLikeHEAD } ? 0.3 : 60 }

    /// Returns whether no client with the knowledge of this operation can detect that the bytes are wrong.
    func isUndetectable(by index: Int) -> Bool {
        !knowledge[index].checksum && all.contains(where: \.isUndetectable)
    }

    /// Whether an error of the last operation is the client's fault.
    var mustSucceed: Bool {
        guard behaviour == .honest || behaviour == .honestByDate || behaviour == .ignoresRange else { return false }
        return operations.last?.contains { if case .cancel = $0.event { true } else { false } } == false
    }

    var description: String {
        let mirrors = mirrors.map { "\($0.behaviour) with the \($0.sameness) file" }.joined(separator: ", ")
        return "case \(number): \(behaviour), mirrors [\(mirrors)], \(size) bytes by \(slice) each \(delay) s, "
            + "\(segments) segments of at least \(minimumSegment)\(retries ? ", retries" : "")"
            + "\(replaces ? ", replaces" : ""), \(world), \(knowledge)"
            + ", \(operations) (CONVOY_SEED=\(seed) CONVOY_DOWNLOAD=\(number))"
    }
}
