import Convoy
import Foundation

/// The options that apply to all transfers of a run.
struct TransferSettings {
    let speed: SpeedOptions
    let routes: RouteOptions
    let cookies: CookieOptions
    var login: LoginOptions
    let trust: TrustOptions
    let trace: TraceOptions

    /// Configures an operation, except for the settings of finite transfers.
    ///
    /// - Parameters:
    ///   - url: The URL given by the user, which may contain a login.
    ///   - configuration: The operation's own configuration.
    ///   - number: The number of the transfer in the run, from 1.
    ///   - heard: Receives the metrics of the transfer's requests.
    func apply(
        to operation: HTTPRequestOperation, _ url: URL, _ configuration: ConnectionConfiguration, number: Int,
        heard: @escaping @Sendable (TransactionMetrics) -> Void
    ) throws(ToolError) {
        var configuration = configuration
        trust.apply(to: &configuration)
        routes.apply(to: &configuration)
        speed.apply(to: &configuration)
        trace.apply(to: operation, &configuration, number: number, heard: heard)
        operation.connectionConfiguration = configuration
        login.apply(to: operation, try Login.taken(from: url)?.login)
        cookies.apply(to: operation)
    }

    /// Writes the files that the run must keep.
    ///
    /// - Returns: The status of the run, which fails if they cannot be written.
    func finish(_ status: ExitStatus, _ display: Display) -> ExitStatus {
        trace.finish(trust.finish(cookies.finish(status, display), display), display)
    }
}

extension TransferSettings {
    /// Creates the settings of a command with one URL. Prompts for a password and a passphrase if necessary.
    init(_ options: Options, for url: URL, _ display: Display) throws(ToolError) {
        speed = try SpeedOptions(options)
        routes = try RouteOptions(options)
        cookies = try CookieOptions(options, display)
        login = LoginOptions(options)
        try login.adopt(url, options)
        try login.ask(options)
        trust = try TrustOptions(options)
        trace = try TraceOptions(options, display, count: 1)
    }
}
