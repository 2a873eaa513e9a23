import Convoy
import Foundation

/// What the options say of all transfers of a run, whatever they fetch.
struct TransferSettings {
    let speed: SpeedOptions
    let routes: RouteOptions
    let cookies: CookieOptions
    var login: LoginOptions
    let trust: TrustOptions
    let trace: TraceOptions

    /// Sets an operation up, but for what is about transfers that have an end.
    ///
    /// - Parameters:
    ///   - url: what the user has given, which may have a login.
    ///   - configuration: what is its own.
    ///   - number: its number in the run, from 1.
    ///   - heard: gets the times of its requests.
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
        routes.apply(to: operation)
        login.apply(to: operation, try Login.taken(from: url)?.login)
        cookies.apply(to: operation)
    }

    /// Writes what the run has to keep.
    ///
    /// - Returns: the status of the run, which fails if that cannot be written.
    func finish(_ status: ExitStatus, _ display: Display) -> ExitStatus {
        trace.finish(trust.finish(cookies.finish(status, display), display), display)
    }
}

extension TransferSettings {
    /// The settings of a command with one URL. It asks for a password and a passphrase where they are needed.
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
