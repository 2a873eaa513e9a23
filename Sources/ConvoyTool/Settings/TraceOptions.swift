import Convoy
import Foundation

/// The options that show what is sent and received, and when.
struct TraceOptions {
    private let isVerbose: Bool
    private let isTimed: Bool
    private let display: Display
    private let count: Int
    private let queue = DispatchQueue(label: "convoy.trace")

    private var isTracing: Bool { isVerbose || isTimed }

    /// - Parameter count: how many transfers there are; the lines of one need no number.
    init(_ options: Options, _ display: Display, count: Int) {
        (isVerbose, isTimed) = (options.has("verbose"), options.has("timing"))
        (self.display, self.count) = (display, count)
    }

    /// What is to hear a transfer; nil for nothing.
    ///
    /// - Parameter number: its number in the run, from 1. Its first request has that in front of its lines, and the next ones
    ///   have `3.2`, `3.3`.
    func trace(number: Int, heard: @escaping @Sendable (TransactionMetrics) -> Void) -> ConnectionTrace? {
        guard isTracing else { return nil }
        return ConnectionTrace(on: queue) { [isVerbose, display, count] line in
            if let metrics = line.metrics { heard(metrics) }
            guard isVerbose else { return }
            let label = line.transfer > 1 ? "\(number).\(line.transfer)" : "\(number)"
            display.remark(Printable.line(count == 1 && line.transfer <= 1 ? "\(line)" : "[\(label)] \(line)"))
        }
    }

    /// Waits until all that was traced is written.
    func finish() {
        guard isTracing else { return }
        queue.sync {}
    }
}
