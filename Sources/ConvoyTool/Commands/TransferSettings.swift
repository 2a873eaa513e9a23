import Convoy

/// What the options say of all transfers of a run, whatever they fetch.
struct TransferSettings {
    let speed: SpeedOptions
    let routes: RouteOptions
    let cookies: CookieOptions
    let login: LoginOptions
    let trust: TrustOptions
    let trace: TraceOptions

    /// Sets a transfer up.
    ///
    /// - Parameters:
    ///   - configuration: what is its own.
    ///   - number: its number in the run, from 1.
    func apply(
        to transfer: Transfer, _ configuration: ConnectionConfiguration, number: Int
    ) throws(ToolError) {
        var configuration = configuration
        trust.apply(to: &configuration)
        routes.apply(to: &configuration)
        speed.apply(to: &configuration)
        trace.apply(to: transfer.operation, &configuration, number: number, heard: transfer.timings.add)
        transfer.operation.connectionConfiguration = configuration
        speed.apply(to: transfer.operation)
        login.apply(to: transfer.operation, try Login.taken(from: transfer.url)?.login)
        cookies.apply(to: transfer.operation)
    }

    /// Writes what the run has to keep.
    ///
    /// - Returns: the status of the run, which fails if that cannot be written.
    func finish(_ status: ExitStatus, _ display: Display) -> ExitStatus {
        trace.finish(trust.finish(cookies.finish(status, display), display), display)
    }
}
