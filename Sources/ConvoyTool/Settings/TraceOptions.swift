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

    /// - Parameter count: how many transfers there are; the lines of one need no number.
    init(_ options: Options, _ display: Display, count: Int) throws(ToolError) {
        (isVerbose, isTimed) = (options.has("verbose"), options.has("timing"))
        archive = try RequestArchive(options)
        (self.display, self.count) = (display, count)
    }

    /// Lets everything hear a transfer that is to hear it.
    ///
    /// - Parameters:
    ///   - number: its number in the run, from 1. Its first request has that in front of its lines, and the next ones have
    ///     `3.2`, `3.3`.
    ///   - heard: gets the times of its requests.
    func apply(
        to operation: HTTPRequestOperation, _ configuration: inout ConnectionConfiguration, number: Int,
        heard: @escaping @Sendable (TransactionMetrics) -> Void
    ) {
        var monitors = archive.map { [$0.monitor] } ?? []
        if isVerbose { monitors.append(storyMonitor(number)) }
        if !monitors.isEmpty { operation.eventMonitors = monitors }
        guard isTracing else { return }
        configuration.trace = ConnectionTrace(showsSecrets: Shown.secrets, on: queue) { [isVerbose, display, count] line in
            if let metrics = line.metrics { heard(metrics) }
            guard isVerbose else { return }
            let label = line.transfer > 1 ? "\(number).\(line.transfer)" : "\(number)"
            display.remark(Printable.line(count == 1 && line.transfer <= 1 ? "\(line)" : "[\(label)] \(line)"))
        }
    }

    /// Tells what no connection knows: what a transfer waits for, and its further attempts.
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

    /// Waits until all that was traced is written.
    func finish() {
        guard isTracing else { return }
        queue.sync {}
    }

    /// Writes what is asked for of the whole run.
    ///
    /// - Returns: the status of the run, which fails if that cannot be written.
    func finish(_ status: ExitStatus, _ display: Display) -> ExitStatus { archive?.finish(status, display) ?? status }
}

/// What a transfer waits for, in words.
enum WaitText {
    /// Nil for what is not worth a word.
    static func text(_ reason: WaitReason) -> String? {
        switch reason {
        case .start, .slot: nil
        case .dependencies: "for what it depends on"
        case .barrier: "for a barrier of its queue"
        case .suspendedQueue: "for its queue to go on"
        case .hostLimit: "for others at the same host"
        case .startRate: "its turn (--wait)"
        case .closedGate: "until its host may be asked again"
        case .retry: "to try again"
        case .connectivity: "for a network"
        case .token: "for a token"
        case .challenge: "for a login"
        case .pause: "to be resumed"
        }
    }
}

/// The option for a file in the HTTP Archive format.
struct RequestArchive {
    private let recorder = HARRecorder(includesSecrets: Shown.secrets)
    private let file: OutputFile

    var monitor: EventMonitor { recorder.monitor }

    /// Nil without the option. Whether the file can be written is seen before anything is sent.
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

/// The options for what is printed.
extension Display {
    /// A display as the options want it.
    ///
    /// - Parameter printsBodies: whether standard output gets the body of a response.
    convenience init(_ options: Options, printsBodies: Bool) throws(ToolError) {
        let body = options.command == .get ? "--output -" : "the body of the response"
        let users = StandardOutput.users(options, body: printsBodies ? body : nil)
        if users.count > 1 { throw options.usage("\(users[0]) and \(users[1]) both need standard output") }
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
        case "plain": (style.showsBars, style.printsProgress) = (false, true)
        default: break
        }
        self.init(style)
        if Shown.secrets, !terminals.isEmpty {
            complain("warning: --show-secrets: passwords, cookies and tokens are printed as they are")
        }
    }
}
