import Convoy
import Foundation

/// The option that shows what is sent and received.
struct TraceOptions {
    static let known: [Options.Option] = [.flag("verbose", "v")]

    /// Its lines in the help of a command.
    static let help = """
          -v, --verbose          tell on standard error what is sent and received, without passwords, cookies and
                                 tokens, and of bodies only the sizes
        """

    private let trace: ConnectionTrace?
    private let queue = DispatchQueue(label: "convoy.trace")

    /// - Parameter count: how many transfers there are; the lines of one need no number.
    init(_ options: Options, _ display: Display, count: Int) {
        guard options.has("verbose") else {
            trace = nil
            return
        }
        trace = ConnectionTrace(on: queue) { line in
            display.remark(Printable.line(count == 1 ? "\(line)" : "[\(line.transfer)] \(line)"))
        }
    }

    func apply(to configuration: inout ConnectionConfiguration) { configuration.trace = trace }

    /// Waits until all that was traced is written.
    func finish() { queue.sync {} }
}
