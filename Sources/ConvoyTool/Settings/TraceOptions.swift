import Convoy
import ConvoySupport
import Foundation
import Glibc

/// The options that show what is sent and received, and when.
struct TraceOptions {
    private let isVerbose: Bool
    private let isTimed: Bool
    private let display: Display
    private let count: Int
    private let queue = DispatchQueue(label: "convoy.trace")
    private let archive: RequestArchive?

    private var isTracing: Bool { isVerbose || isTimed }

    /// - Parameter count: The number of transfers. The lines of a single transfer are not numbered.
    init(_ options: Options, _ display: Display, count: Int) throws(ToolError) {
        isVerbose = options.has("verbose")
        isTimed = options.has("timing")
        archive = try RequestArchive(options)
        self.display = display
        self.count = count
    }

    /// Attaches the observers of a transfer.
    ///
    /// - Parameters:
    ///   - number: The number of the transfer in the run, from 1. The lines of the first request are prefixed with this
    ///     number, and those of further requests with `3.2`, `3.3`.
    ///   - heard: Receives the metrics of the transfer's requests.
    func apply(
        to operation: HTTPRequestOperation, number: Int, heard: @escaping @Sendable (TransactionMetrics) -> Void
    ) {
        var monitors = archive.map { [$0.monitor] } ?? []
        if isVerbose { monitors.append(storyMonitor(number)) }
        if !monitors.isEmpty { operation.eventMonitors = monitors }
        guard isTracing else { return }
        let trace = ConnectionTrace(showsSecrets: Shown.secrets, on: queue) { [isVerbose, display, count] line in
            if let metrics = line.metrics { heard(metrics) }
            guard isVerbose else { return }
            let label = line.transfer > 1 ? "\(number).\(line.transfer)" : "\(number)"
            display.remark(Printable.line(count == 1 && line.transfer <= 1 ? "\(line)" : "[\(label)] \(line)"))
        }
        operation.connectionConfiguration.trace = trace
    }

    /// Returns a monitor for events that the connection does not report: the reasons why a transfer waits, and its
    /// retries.
    private func storyMonitor(_ number: Int) -> EventMonitor {
        EventMonitor(interval: 0, on: queue) { [display, count] events in
            for event in events {
                let text: String
                switch event.kind {
                case .attemptStarted(let attempt) where attempt > 1: text = "attempt \(attempt)"
                case .waiting(let reason):
                    guard let cause = WaitText.text(reason) else { continue }
                    text = "waiting \(cause)"
                default: continue
                }
                display.remark(count == 1 ? "* \(text)" : "[\(number)] * \(text)")
            }
        }
    }

    /// Waits until all trace lines have been written.
    func finish() {
        guard isTracing else { return }
        queue.sync {}
    }

    /// Writes the archive of the run, if requested.
    ///
    /// - Returns: The status of the run, which fails if the archive cannot be written.
    func finish(_ status: ExitStatus, _ display: Display) -> ExitStatus { archive?.finish(status, display) ?? status }
}

/// Descriptions of the reasons why a transfer waits.
enum WaitText {
    /// Returns the description, or nil if the wait is not worth mentioning.
    static func text(_ reason: WaitReason) -> String? {
        switch reason {
        case .start, .slot, .condition: nil
        case .dependencies: "for its dependencies"
        case .barrier: "for a barrier of its queue"
        case .suspendedQueue: "for its queue to resume"
        case .hostLimit: "for other transfers from the same host"
        case .startRate: "for its turn (--wait)"
        case .closedGate: "until its host accepts requests again"
        case .retry: "to retry"
        case .connectivity: "for a network"
        case .token: "for a token"
        case .challenge: "for a login"
        case .pause: "to be resumed"
        }
    }
}

/// The HTTP Archive option.
struct RequestArchive {
    private let recorder = HARRecorder(includesSecrets: Shown.secrets)
    private let file: OutputFile

    var monitor: EventMonitor { recorder.monitor }

    /// Returns nil without the option. Checks that the file can be written before anything is sent.
    init?(_ options: Options) throws(ToolError) {
        guard let path = options.value("har") else { return nil }
        file = try OutputFile(path, option: "har", isPrivate: true)
    }

    func finish(_ status: ExitStatus, _ display: Display) -> ExitStatus {
        let done = DispatchSemaphore(value: 0)
        let made = Locked<Result<Data, any Error>>(.success(Data()))
        recorder.log { log in
            made.withLock { $0 = Result { try log.data() } }
            done.signal()
        }
        done.wait()
        do {
            let data = try made.withLock { $0 }.get()
            try file.write(Display.archiveFilter.withLock { $0 }?(data) ?? data)
            return status
        } catch {
            display.complain(ErrorText.line(for: error))
            return status == .success ? .failed(.disk) : status
        }
    }
}

/// The output options.
extension Display {
    /// Creates a display according to the options.
    ///
    /// - Parameter printsBodies: Whether the body of a response is written to standard output.
    convenience init(_ options: Options, printsBodies: Bool) throws(ToolError) {
        let body = options.command == .get ? "--output -" : "the body of the response"
        let users = StandardOutput.users(options, body: printsBodies ? body : nil)
        if users.count > 1 { throw options.usage("\(users[0]) and \(users[1]) both write to standard output") }
        var style = Style()
        style.machineReadsOutput = users.contains { $0 != "--report tap" }
        style.printsBodies = printsBodies
        style.isQuiet = options.has("quiet")
        switch try options.choice("color") {
        case "always": style.colour = true
        case "never": style.colour = false
        default: break
        }
        switch try options.choice("progress") {
        case "none": style.showsBars = false
        case "plain":
            style.showsBars = false
            style.printsProgress = true
        default: break
        }
        self.init(style)
        if Shown.secrets, !terminals.isEmpty {
            complain("warning: --show-secrets: passwords, cookies and tokens are printed")
        }
    }
}
