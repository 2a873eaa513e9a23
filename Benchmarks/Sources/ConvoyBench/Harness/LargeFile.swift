import CLimit
import Foundation

/// The large file transferred by a case, its destination, and the figures of the transfer.
struct LargeFile {
    let context: Context
    let target: URL
    let mebibytes: Double

    init(_ context: Context) throws {
        self.context = context
        target = context.scratch.appendingPathComponent("target")
        let attributes = try FileManager.default.attributesOfItem(atPath: context.largeFile.path)
        mebibytes = Double((attributes[.size] as? Int) ?? 0) / 1048576
    }

    /// Measures a transfer within this process, including the growth of its memory.
    func measure(_ transfer: () throws -> Void) throws -> Sample {
        limit_reset_peak()
        let before = limit_memory("VmRSS")
        let cost = try Cost(of: transfer)
        let peak = limit_memory("VmHWM")
        return sample(cost, peak: peak, grown: peak - before)
    }

    func sample(_ cost: Cost, peak: Int, grown: Int? = nil) -> Sample {
        var details = ["CPU ms per GiB": cost.cpuSeconds * 1000 * 1024 / mebibytes]
        if let grown { details["grown MiB"] = Double(grown) / 1024 }
        return Sample(mebibytes / cost.seconds, peakKilobytes: peak, details: details)
    }

    /// Compares the received file byte by byte, and removes it.
    func verified(_ sample: Sample) throws -> Sample {
        defer { try? FileManager.default.removeItem(at: target) }
        guard limit_same_files(target.path, context.largeFile.path) == 1 else {
            throw BenchError("the received file differs from the original")
        }
        return sample
    }
}
