import Foundation

/// The input of a subject's process.
struct Context: Codable, Sendable {
    /// The server, over plain HTTP.
    var url: URL
    /// The server, over TLS with HTTP/2.
    var secureURL: URL
    /// The PEM certificate to trust for that server.
    var certificateAuthority: URL
    /// The server's own PEM certificate.
    var serverCertificate: URL
    /// A server that accepts any PUT and discards the body, and responds to any GET with 11 bytes.
    var sinkURL: URL
    /// A server that sends events.
    var eventsURL: URL
    /// The large file that the server serves as `/large`.
    var largeFile: URL
    /// A directory for files written by a subject, in the same file system as `largeFile`.
    var scratch: URL
    /// Whether the run only checks that everything works.
    var isQuick: Bool

    /// Returns the number of repetitions, which is lower in a quick run.
    func count(_ full: Int) -> Int { isQuick ? max(min(full, 50), full / 50) : full }
}

/// A program or library that is measured. Each run uses a separate process.
struct Subject: Sendable {
    /// The name in the report.
    let name: String
    /// The required program; nil for none.
    let program: String?
    /// Runs the subject once, in the process started for it.
    let run: @Sendable (Context) throws -> Sample

    init(_ name: String, needs program: String? = nil, run: @escaping @Sendable (Context) throws -> Sample) {
        self.name = name
        self.program = program
        self.run = run
    }

    /// Whether the required program is installed.
    var isAvailable: Bool { program.map { External.find($0) != nil } ?? true }
}

/// Subjects that do the same work, alternating in each round.
struct Trial: Sendable {
    /// The name: "small-get", or "wake-1000" if a case has several trials.
    let name: String
    /// The unit of the samples' values.
    let unit: String
    /// The subject with which the others are compared; nil for none.
    let limit: String?
    let subjects: [Subject]

    /// The name of the plain C loop in all trials.
    static let cLoop = "limit"
    /// The name of Convoy in all trials.
    static let convoy = "convoy"
}

/// A line of the table: trials, and the targets for their figures.
struct Case: Sendable {
    let name: String
    /// A description in one line.
    let summary: String
    let trials: [Trial]
    let bars: [Bar]
    /// Whether the case requires `Context.largeFile`.
    var needsLargeFile = false
    /// Whether the case runs over a ``LossyLink``.
    var needsLossyLink = false

    /// All cases, in the order of the table.
    static let all: [Case] = [
        .smallGet, .smallGetOne, .smallGetHTTP2, .wake, .jsonGet, .serialize, .download, .upload, .resumableUpload,
        .operations, .waiting,
        .transfers, .pause, .secureGet, .handshake, .idleStores, .cachedGet, .downloadOperation, .downloadSegments,
        .downloadMany, .downloadLossy, .events, .beside,
    ]

    /// Returns the trial with a name.
    static func trial(_ name: String) -> Trial? { all.lazy.flatMap(\.trials).first { $0.name == name } }
}

/// A target for a figure.
struct Bar: Sendable {
    enum Direction: Sendable { case atLeast, atMost }

    let text: String
    let direction: Direction
    let threshold: Double
    let measure: Figure

    typealias Figure = @Sendable (Results) -> Double?

    static func atLeast(_ threshold: Double, _ text: String, _ measure: @escaping Figure) -> Bar {
        Bar(text: text, direction: .atLeast, threshold: threshold, measure: measure)
    }

    static func atMost(_ threshold: Double, _ text: String, _ measure: @escaping Figure) -> Bar {
        Bar(text: text, direction: .atMost, threshold: threshold, measure: measure)
    }

    func isMet(by value: Double) -> Bool { direction == .atLeast ? value >= threshold : value <= threshold }
}

/// All samples of a case.
struct Results: Sendable {
    /// The samples by trial and subject, in the order of the rounds; nil for a failed run.
    private var samples: [String: [String: [Sample?]]] = [:]

    mutating func add(_ sample: Sample?, trial: String, subject: String) {
        samples[trial, default: [:]][subject, default: []].append(sample)
    }

    /// The number of failed runs.
    var failures: Int { samples.values.joined().reduce(0) { $0 + $1.value.filter { $0 == nil }.count } }

    /// Returns the samples of the successful runs.
    func samples(_ trial: String, _ subject: String) -> [Sample] {
        samples[trial]?[subject]?.compactMap(\.self) ?? []
    }

    /// Returns the median of a figure over the rounds.
    func median(_ trial: String, _ subject: String, _ figure: (Sample) -> Double? = \.value) -> Double? {
        samples(trial, subject).compactMap(figure).median
    }

    /// Returns the median of a detail over the rounds.
    func detail(_ name: String, _ trial: String, _ subject: String = Trial.convoy) -> Double? {
        median(trial, subject) { $0.details[name] }
    }

    /// Returns the median, over the rounds, of one subject's figure divided by that of another in the same round,
    /// because other load on the machine slows down both.
    func ratio(
        _ trial: String, _ subject: String = Trial.convoy, to other: String = Trial.cLoop,
        by figure: (Sample) -> Double? = \.value
    ) -> Double? {
        combined(samples[trial]?[subject], samples[trial]?[other], figure) { $1 > 0 ? $0 / $1 : nil }
    }

    /// Returns the median, over the rounds, of Convoy's figure in one trial divided by a subject's figure in another
    /// trial.
    func ratio(_ trial: String, to other: String, in otherTrial: String, by figure: (Sample) -> Double?) -> Double? {
        combined(samples[trial]?[Trial.convoy], samples[otherTrial]?[other], figure) { $1 > 0 ? $0 / $1 : nil }
    }

    /// Returns the median, over the rounds, of Convoy's value minus that of another subject, by default the C loop.
    func excess(_ trial: String, over other: String = Trial.cLoop) -> Double? {
        combined(samples[trial]?[Trial.convoy], samples[trial]?[other], \.value) { $0 - $1 }
    }

    private func combined(
        _ ones: [Sample?]?, _ others: [Sample?]?, _ figure: (Sample) -> Double?, _ combine: (Double, Double) -> Double?
    ) -> Double? {
        guard let ones, let others else { return nil }
        return zip(ones, others).compactMap { one, other -> Double? in
            guard let one = one.flatMap(figure), let other = other.flatMap(figure) else { return nil }
            return combine(one, other)
        }.median
    }
}
