import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking

/// The options of requests that `get` and `run` share: the login, the limit of redirects, and the trace.
struct RequestOptions {
    static let known: [Options.Option] = [
        .flag("verbose", "v"), .value("max-redirs"), .value("user", "u"),
    ]

    /// Their lines in the help of a command.
    static let help = """
          -u, --user USER[:PASS] log in to the server with Basic authorization; without a password it is asked for at the
                                 terminal. Another server never gets it: all URLs must be of one, and a redirect
                                 to another leaves it behind. It does not replace a login in a URL, nor a header
              --max-redirs N     follow at most N redirects of a request, 0 to 1000 (default: 20)
          -v, --verbose          tell on standard error what is sent and received, without passwords, cookies and
                                 tokens, and of bodies only the sizes
        """

    let login: Login?
    private let maximumRedirects: Int?
    private let trace: ConnectionTrace?
    private let traceQueue = DispatchQueue(label: "convoy.trace")

    /// - Parameter count: how many transfers there are; the lines of one need no number.
    /// - Throws: a usage error, also if there is no terminal to ask for a password.
    init(_ options: Options, _ display: Display, count: Int) throws(ToolError) {
        maximumRedirects = try options.integer("max-redirs", in: 0...1000)
        login = try options.value("user").map { text throws(ToolError) in try Login(asking: text, options) }
        trace =
            options.has("verbose")
            ? ConnectionTrace(on: traceQueue) { line in
                display.remark(Printable.line(count == 1 ? "\(line)" : "[\(line.transfer)] \(line)"))
            } : nil
    }

    func apply(to configuration: inout ConnectionConfiguration) {
        if let maximumRedirects { configuration.maximumRedirects = maximumRedirects }
        configuration.trace = trace
    }

    /// Waits until all that was traced is written.
    func finish() { traceQueue.sync {} }
}
