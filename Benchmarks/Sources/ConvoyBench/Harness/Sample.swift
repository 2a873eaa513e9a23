import CLimit
import Foundation

/// The result of one run of a subject.
struct Sample: Codable, Sendable {
    /// The value in the unit of the trial.
    var value: Double
    /// The user and system time of all threads per request, in microseconds.
    var cpuMicroseconds: Double?
    /// The peak of resident memory, in kB.
    var peakKilobytes: Int
    /// Additional figures, by names that include the unit.
    var details: [String: Double] = [:]

    /// - Parameter peakKilobytes: The peak; nil for that of this process, unless another one did the work.
    init(_ value: Double, cpuMicroseconds: Double? = nil, peakKilobytes: Int? = nil, details: [String: Double] = [:]) {
        self.value = value
        self.cpuMicroseconds = cpuMicroseconds
        self.peakKilobytes = peakKilobytes ?? limit_memory("VmHWM")
        self.details = details
    }

    /// Returns a sample with the requests per second.
    static func rate(_ requests: Int, _ cost: Cost, peakKilobytes: Int? = nil) -> Sample {
        Sample(
            Double(requests) / cost.seconds, cpuMicroseconds: cost.cpuSeconds * 1e6 / Double(requests),
            peakKilobytes: peakKilobytes)
    }
}

/// The time that some work took.
struct Cost: Sendable {
    /// The elapsed time, in seconds.
    var seconds: Double
    /// The user and system time of all threads of this process, in seconds.
    var cpuSeconds: Double

    init(seconds: Double, cpuSeconds: Double) {
        self.seconds = seconds
        self.cpuSeconds = cpuSeconds
    }

    /// Does the work, and reads the clocks before and after it.
    init(of work: () throws -> Void) rethrows {
        let cpu = limit_cpu_seconds()
        let start = limit_nanoseconds()
        try work()
        seconds = Double(limit_nanoseconds() - start) / 1e9
        cpuSeconds = limit_cpu_seconds() - cpu
    }
}

/// The failure of a subject.
struct BenchError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// - Throws: An error if requests failed, because the rate of failed requests is meaningless.
    static func check(failed: Int, of count: Int) throws {
        guard failed == 0 else { throw BenchError("\(failed) of \(count) requests failed") }
    }
}

extension Sequence where Element == Double {
    /// The median; nil for an empty array.
    var median: Double? {
        let sorted = self.sorted()
        guard !sorted.isEmpty else { return nil }
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }
}
