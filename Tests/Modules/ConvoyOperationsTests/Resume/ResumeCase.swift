import ConvoyTestServer
import ConvoyTestSupport
import Foundation

/// A download with all its interruptions, determined by the seed and the number.
struct ResumeCase: Sendable, CustomStringConvertible {
    enum Kind: String, CaseIterable, Sendable {
        /// A plain `HTTPRequestOperation`.
        case http
        /// An `HTTPRequestOperation` whose serializer accepts every status code.
        case anyStatus
        /// A `URLConnectionOperation`, which ignores status codes.
        case plain
    }

    enum Start: String, CaseIterable, Sendable { case requestQueue, foundationQueue, byHand }

    /// The delays before and between a pause and a resume from a separate thread, in microseconds.
    struct Knock: Sendable {
        var wait: UInt32
        var gap: UInt32
    }

    let seed: UInt64
    let number: Int
    let behaviour: ServerBehaviour
    let usesHTTP2: Bool
    let size: Int
    let slice: Int
    let delay: TimeInterval
    let sink: ResumeSink
    let sinkSlowness: Int
    let kind: Kind
    let start: Start
    let retries: Bool
    let coalesces: Bool
    let startsPaused: Bool
    /// The byte counts at which the progress handler pauses, and the microseconds until the resume; 0 means
    /// immediately.
    let pauses: [(offset: Int64, gap: Int)]
    /// Whether the last of these pauses ends in a cancellation.
    let cancelsInLastPause: Bool
    let knocks: [Knock]
    /// The time of the cancellation after the last knock, in microseconds.
    let cancelDelay: UInt32?

    init(seed: UInt64, number: Int, behaviours: [ServerBehaviour], sharesHTTP2: Bool) {
        var random = SplitMix64(seed: seed &+ UInt64(truncatingIfNeeded: number) &* 0xA24B_AED4_963E_E407)
        _ = random.next()
        self.seed = seed
        self.number = number
        behaviour = behaviours[number % max(1, behaviours.count)]
        // Draw this even if HTTP/2 is not available, so that the rest of the case is the same on every machine.
        let drawsHTTP2 = Int.random(in: 0..<3, using: &random) == 0
        usesHTTP2 = sharesHTTP2 && drawsHTTP2 && behaviour.passesNginx
        size = Self.pick([0, 1, 2, 700, 5_000, 60_000, 150_000, 400_000], &random)
        // Use at most about forty slices, so that a case ends soon.
        slice = max(Self.pick([1_000, 4_096, 16_384], &random), size / 40)
        delay = Self.pick([0, 0, 0.0005, 0.002], &random)
        sink = Self.pick([.memory, .memory, .file, .slowStream, .streamWithoutRewind, .foundationFile], &random)
        sinkSlowness = Int.random(in: 0...400, using: &random)
        kind = Self.pick([.http, .http, .http, .anyStatus, .plain], &random)
        start = Self.pick(Start.allCases, &random)
        retries = Bool.random(using: &random)
        coalesces = Int.random(in: 0..<4, using: &random) == 0
        startsPaused = Int.random(in: 0..<4, using: &random) == 0
        let size = size
        var offsets = (0..<Int.random(in: 0...4, using: &random)).map { _ in
            Int64.random(in: 0...Int64(max(1, size)), using: &random)
        }.sorted()
        if Int.random(in: 0..<5, using: &random) == 0 { offsets.append(Int64(size)) }
        pauses = offsets.map { ($0, Self.pick([0, 0, 500, 3_000, 15_000], &random)) }
        cancelsInLastPause = Int.random(in: 0..<12, using: &random) == 0
        let knockCount = Bool.random(using: &random) ? Int.random(in: 1...8, using: &random) : 0
        knocks = (0..<knockCount).map { _ in
            Knock(
                wait: UInt32.random(in: 0...8_000, using: &random),
                gap: Bool.random(using: &random) ? 0 : UInt32.random(in: 1...2_000, using: &random))
        }
        cancelDelay = Int.random(in: 0..<8, using: &random) == 0 ? UInt32.random(in: 0...30_000, using: &random) : nil
    }

    private static func pick<Value>(_ values: [Value], _ random: inout SplitMix64) -> Value {
        values[Int.random(in: 0..<values.count, using: &random)]
    }

    /// The idle timeout of the request, in seconds; short only if the server stalls.
    var timeout: TimeInterval { behaviour.stalls ? 0.3 : 60 }

    /// Whether an error other than a cancellation is the client's mistake.
    var mustSucceed: Bool {
        // Without a length, a pause after the last byte causes the complete body to be fetched again.
        let isOfUnknownLength = behaviour == .misleadingTrailers || behaviour == .honestInChunks
        let isAppended = behaviour.outcomes == [.appended] && !isOfUnknownLength
        guard sink.canForget || isAppended else { return false }
        let isUnavailable = behaviour == .unavailableAtFirst || behaviour == .unavailableOnResume
        return behaviour.isHonest || isUnavailable && retries && kind == .http
    }

    var description: String {
        "case \(number): \(behaviour)\(usesHTTP2 ? " over HTTP/2" : ""), \(size) bytes by \(slice) each \(delay) s, "
            + "\(sink), \(kind), \(start)\(retries ? ", retries" : "")\(coalesces ? ", coalesces" : "")"
            + "\(startsPaused ? ", starts paused" : ""), pauses \(pauses.map { "\($0.offset)+\($0.gap)" })"
            + "\(cancelsInLastPause ? ", cancels in the last" : ""), \(knocks.count) knocks"
            + "\(cancelDelay.map { ", cancels after \($0)" } ?? "") "
            + "(CONVOY_SEED=\(seed) CONVOY_RESUME=\(number))"
    }
}

extension ServerBehaviour {
    /// The behaviours listed in `CONVOY_BEHAVIOURS`, separated by commas; all by default.
    static let chosen: [ServerBehaviour] = {
        let names = ProcessInfo.processInfo.environment["CONVOY_BEHAVIOURS"]?.split(separator: ",").map(String.init)
        return allCases.filter { names?.contains($0.rawValue) ?? true }
    }()

    /// Whether only a timeout ends the response.
    var stalls: Bool { self == .stalls || self == .answersLikeHEAD }

    /// Whether nginx forwards the behaviour unchanged, so that it can be tested over HTTP/2. The others require
    /// HTTP/1.1.
    ///
    /// nginx 1.22 responds with 502 itself if no head arrives or another protocol is used, supports no interim
    /// responses except 100, removes a `Transfer-Encoding` without decoding it, and adds a missing `Date`. nginx 1.23
    /// omits the second of two tags.
    var passesNginx: Bool {
        switch self {
        case .closesBeforeHead, .resetsBeforeHead, .cutInHead, .switchesProtocols, .notHTTP,
            .misleadingInterimResponses, .gzipTransferCoding, .lastModifiedWithoutDate, .twoEntityTags:
            false
        default: true
        }
    }
}
