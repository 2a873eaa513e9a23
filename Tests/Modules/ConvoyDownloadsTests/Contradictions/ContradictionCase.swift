import ConvoyTestSupport
import Foundation

/// A fetch from a server in the table with all events during it, determined by the seed and the number.
struct ContradictionCase: Sendable, CustomStringConvertible {
    enum Kind: String, CaseIterable, Sendable { case memory, file, download }

    let seed: UInt64
    let number: Int
    let server: ScriptedServer
    let kind: Kind
    let usesHTTP2: Bool
    let size: Int
    let pace: ScriptedAnswer.Pace
    /// The byte counts at which the fetch is paused, and the durations of the pauses in microseconds.
    let pauses: [(offset: Int64, gap: Int)]
    /// The byte count at which the first response is cut.
    let cut: Int?
    /// Whether a cut over HTTP/2 resets the stream rather than closing the connection.
    let cutsStream: Bool
    let retries: Bool
    let segments: Int

    init(seed: UInt64, number: Int, servers: [ScriptedServer], hasHTTP2: Bool) {
        var random = SplitMix64(seed: seed &+ UInt64(truncatingIfNeeded: number) &* 0xA24B_AED4_963E_E407)
        _ = random.next()
        (self.seed, self.number) = (seed, number)
        // Use each server in each way in turn. The random choices are the same on every machine.
        let server = servers[number % max(1, servers.count)]
        let turn = number / max(1, servers.count)
        self.server = server
        kind = Kind.allCases[turn % Kind.allCases.count]
        let drawsHTTP2 = Bool.random(using: &random)
        usesHTTP2 = hasHTTP2 && (server.isOverHTTP1 ? server.isOverHTTP2 && drawsHTTP2 : true)
        size = Self.pick([2_000, 30_000, 120_000], &random)
        pace = ScriptedAnswer.Pace(slice: max(500, size / 16), pause: Self.pick([0, 0.0003, 0.001], &random))
        let size = size
        let gaps = [0, 0, 300, 2_000]
        var offsets = (0..<Self.pick([0, 1, 1, 2, 3], &random)).map { _ in Int64.random(in: 1..<Int64(size), using: &random)
        }
        let cutsFirst = server.mayBeCut && Int.random(in: 0..<3, using: &random) == 0
        let cutAt = Int.random(in: 1..<size, using: &random)
        cut = cutsFirst ? cutAt : nil
        if offsets.isEmpty, !cutsFirst { offsets = [Int64(size / 2)] }
        offsets.sort()
        pauses = offsets.map { ($0, Self.pick(gaps, &random)) }
        cutsStream = Bool.random(using: &random)
        let drawsRetries = Bool.random(using: &random)
        retries = drawsRetries || server.isHonest || cutsFirst
        segments = Self.pick([1, 1, 1, 3], &random)
    }

    private static func pick<Value>(_ values: [Value], _ random: inout SplitMix64) -> Value {
        values[Int.random(in: 0..<values.count, using: &random)]
    }

    var description: String {
        "case \(number): \(server) over HTTP/\(usesHTTP2 ? "2" : "1.1") as \(kind), \(size) bytes by \(pace.slice) each "
            + "\(pace.pause) s, pauses \(pauses.map { "\($0.offset)+\($0.gap)" })"
            + "\(cut.map { ", the first cut after \($0)\(cutsStream ? " by its stream" : "")" } ?? "")"
            + "\(retries ? ", retries" : "")\(segments > 1 ? ", \(segments) segments" : "") "
            + "(CONVOY_SEED=\(seed) CONVOY_CONTRADICTION=\(number))"
    }
}
