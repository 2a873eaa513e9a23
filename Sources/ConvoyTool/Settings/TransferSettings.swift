import Convoy
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The options that apply to all transfers of a run.
struct TransferSettings {
    let speed: SpeedOptions
    let routes: RouteOptions
    let cookies: CookieOptions
    var login: LoginOptions
    let trust: TrustOptions
    let trace: TraceOptions
    /// The serial queue of the transfers' handlers.
    let completionQueue = DispatchQueue(label: "convoy.completion")
    /// The group that each transfer leaves after its handlers have run.
    let completionGroup = DispatchGroup()

    /// The settings of all transfers without a configuration of their own, prepared once.
    private let ofTransfers = Prepared()

    private final class Prepared: Sendable {
        let settings = Locked<RequestSettings?>(nil)
    }

    init(
        speed: SpeedOptions, routes: RouteOptions, cookies: CookieOptions, login: LoginOptions, trust: TrustOptions,
        trace: TraceOptions
    ) {
        self.speed = speed
        self.routes = routes
        self.cookies = cookies
        self.login = login
        self.trust = trust
        self.trace = trace
    }

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
        applyShared(to: operation, configuration)
        try applyOwn(to: operation, url, number: number, heard: heard)
    }

    /// Configures the operation of a transfer.
    ///
    /// - Parameters:
    ///   - configuration: The operation's own configuration, if any.
    ///   - number: The number of the transfer in the run, from 1.
    func apply(
        toTransfer operation: HTTPRequestOperation, _ url: URL, _ configuration: ConnectionConfiguration?,
        isUpload: Bool, number: Int, heard: @escaping @Sendable (TransactionMetrics) -> Void
    ) throws(ToolError) {
        // Transfers with a limit of their own must not share it.
        if configuration == nil, speed.limitOfEach == nil, operation.settings.isStandard {
            // Operations with the same settings prepare them once, which is half the cost of a small file.
            operation.settings = ofTransfers.settings.withLock { $0 } ?? makeSettingsOfTransfers(for: operation.request)
        } else {
            applyToTransfer(operation, configuration ?? ConnectionConfiguration())
        }
        // Only uploads have large request bodies.
        if isUpload { operation.sendRateLimit = speed.limit }
        try applyOwn(to: operation, url, number: number, heard: heard)
    }

    private func makeSettingsOfTransfers(for request: URLRequest) -> RequestSettings {
        let model = HTTPRequestOperation(request: request)
        applyToTransfer(model, ConnectionConfiguration())
        let settings = model.settings
        ofTransfers.settings.withLock { $0 = settings }
        return settings
    }

    private func applyToTransfer(_ operation: HTTPRequestOperation, _ configuration: ConnectionConfiguration) {
        applyShared(to: operation, configuration)
        speed.apply(to: operation)
        operation.completionQueue = completionQueue
        operation.completionGroup = completionGroup
    }

    /// Sets what is the same for all operations.
    private func applyShared(to operation: HTTPRequestOperation, _ configuration: ConnectionConfiguration) {
        var configuration = configuration
        trust.apply(to: &configuration)
        routes.apply(to: &configuration)
        speed.apply(to: &configuration)
        operation.connectionConfiguration = configuration
        login.apply(to: operation)
        cookies.apply(to: operation)
    }

    /// Sets what depends on the operation.
    private func applyOwn(
        to operation: HTTPRequestOperation, _ url: URL, number: Int,
        heard: @escaping @Sendable (TransactionMetrics) -> Void
    ) throws(ToolError) {
        trace.apply(to: operation, number: number, heard: heard)
        if let credential = login.credential(for: operation.request.url, try Login.taken(from: url)?.login) {
            operation.credential = credential
        }
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
    ///
    /// - Parameter store: The cookies of a session, which need no file.
    init(_ options: Options, for url: URL, _ display: Display, cookies store: CookieStore? = nil) throws(ToolError) {
        let (speed, routes) = (try SpeedOptions(options), try RouteOptions(options))
        let cookies = if let store { CookieOptions(store) } else { try CookieOptions(options, display) }
        var login = LoginOptions(options)
        try login.adopt(url, options)
        try login.ask(options)
        self.init(
            speed: speed, routes: routes, cookies: cookies, login: login, trust: try TrustOptions(options),
            trace: try TraceOptions(options, display, count: 1))
    }
}
