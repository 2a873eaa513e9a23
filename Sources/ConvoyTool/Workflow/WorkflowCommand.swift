import Convoy
import ConvoySupport
import ConvoyWorkflow
import Foundation

/// `convoy run` with a manifest whose requests have names and pass values to each other.
enum WorkflowCommand {
    /// The options of a run, which apply to all rows of `--data`.
    private struct Setting: Sendable {
        let display: Display
        let reports: ReportOptions
        let directory: String
        let replaces: Bool
        let isPreview: Bool
        let resumes: Bool
        let stops: Bool
        let printsJSON: Bool
        let journal: String?
    }

    /// A run of the manifest with the values of a row.
    private struct Row: Sendable {
        let workflow: Workflow
        let data: DataRow
    }

    /// The options that only manifests with named requests support.
    static let options = [
        "var", "env-file", "only", "skip", "keep-going", "fail-fast", "graph", "data", "report", "timeline", "resume",
    ]

    /// Reads a manifest with the values of the options.
    static func workflow(
        _ contents: Data, name: String, _ inputs: WorkflowInputs, _ options: Options
    ) throws(ToolError) -> Workflow {
        let workflow: Workflow
        do throws(ManifestError) {
            workflow = try Workflow(parsing: contents, name: name, inputs: inputs)
        } catch {
            throw .usage(Printable.line(Shown.text(error.description)))
        }
        func names(_ option: String) throws(ToolError) -> [String]? {
            guard options.has(option) else { return nil }
            let names = options.all(option).flatMap { $0.split(separator: ",").map(String.init) }
            guard !names.isEmpty else { throw options.usage("--\(option) needs the name of a request, or a tag") }
            if let unknown = workflow.unknownName(in: names) {
                let place = Printable.line(name)
                throw options.usage("--\(option): unknown request \"\(Printable.line(unknown))\" in \(place)")
            }
            return names
        }
        let (wanted, skipped) = (try names("only"), try names("skip"))
        var result = workflow
        if let skipped { result = result.skipping(skipped) ?? result }
        if let wanted {
            guard result.unknownName(in: wanted) == nil else {
                throw options.usage("--only and --skip leave nothing of a request to run")
            }
            result = result.only(wanted) ?? result
        }
        guard !result.requestIDs.isEmpty else { throw options.usage("--skip leaves no request to run") }
        return result
    }

    static func run(_ contents: Data, name: String, _ options: Options) throws(ToolError) -> ExitStatus {
        let display = try Display(options, printsBodies: false)
        let reports = try ReportOptions(options)
        let inputs = try WorkflowOptions.inputs(options)
        let rows = try WorkflowOptions.rows(options)
        var workflows: [Workflow] = []
        for row in rows {
            var inputs = inputs
            inputs.variables.merge(row.variables) { given, _ in given }
            do throws(ToolError) {
                workflows.append(try workflow(contents, name: name, inputs, options))
            } catch {
                guard let number = row.number, number > 1 else { throw error }
                // Name only the row, because its values may be undeclared secrets.
                throw ToolError(text: "--data: row \(number): \(error.text)", status: error.status)
            }
        }
        try WorkflowOptions.check(options, inputs, workflows, display)
        for column in rows[0].columns {
            guard let complaint = workflows[0].complaint(aboutVariable: column.name) else { continue }
            display.complain("--data: \(Printable.line(complaint)) in \(Printable.line(name)): the column is not used")
        }
        if let text = options.value("graph") {
            guard let format = Workflow.GraphFormat(rawValue: text) else {
                throw options.usage("--graph takes dot or mermaid")
            }
            display.emit(workflows[0].graph(format))
            return .success
        }
        let directory = options.value("directory") ?? "."
        guard !directory.isEmpty else { throw options.usage("--directory needs a directory") }
        // The journal is stored beside the outputs, so that each output directory has a separate run. A manifest from a
        // pipe has no journal.
        let isStream = name == "standard input" || SpecialFile.isStream(name)
        let journal =
            isStream || options.has("dry-run")
            ? nil : PathText.join(directory, ".\(PathText.name(of: name)).convoyrun")
        if options.has("resume"), journal == nil { throw options.usage("--resume requires a manifest in a file") }
        let setting = Setting(
            display: display, reports: reports, directory: directory, replaces: options.has("force"),
            isPreview: options.has("dry-run"), resumes: options.has("resume"), stops: options.has("fail-fast"),
            printsJSON: options.has("json"), journal: journal)
        let all = zip(workflows, rows).map { workflow, data in
            var data = data
            data.secrets = workflow.secrets(hidesNamed: !Shown.secrets)
            return Row(workflow: workflow, data: data)
        }
        try checkOutputs(all, setting)
        return try run(all, setting, options)
    }

    /// Checks all outputs before the first request: running half of the rows is worse than running nothing.
    private static func checkOutputs(_ rows: [Row], _ setting: Setting) throws(ToolError) {
        var owners: [Data: Row] = [:]
        for row in rows {
            for output in row.workflow.knownOutputs {
                let path = PathText.join(setting.directory, output)
                if let other = owners.updateValue(row, forKey: Data(output.utf8)) {
                    let titles = [other, row].map(\.data.title)
                    let shown = row.data.secrets.masked(Printable.line(output))
                    throw .usage("--data: \(titles[0]) and \(titles[1]) have the same output, \(shown)")
                }
                guard !setting.replaces, !setting.resumes, !setting.isPreview else { continue }
                let shown = row.data.secrets.masked(setting.directory == "." ? output : path)
                if FileManager.default.fileExists(atPath: path) { throw FileProblem.exists(shown) }
            }
        }
    }

    private static func run(_ rows: [Row], _ setting: Setting, _ options: Options) throws(ToolError) -> ExitStatus {
        let display = setting.display
        let speed = try SpeedOptions(options)
        let routes = try RouteOptions(options)
        let cookies = try CookieOptions(options, display)
        // This step comes last, because it may prompt for a password and a passphrase.
        var login = LoginOptions(options)
        for row in rows { if let base = row.workflow.baseURL { try login.adopt(base, options) } }
        try login.ask(options)
        let trust = try TrustOptions(options)
        let settings = TransferSettings(
            speed: speed, routes: routes, cookies: cookies, login: login, trust: trust,
            trace: try TraceOptions(options, display, count: 2))
        if let warning = trust.warning, !setting.isPreview { display.complain(warning) }
        let timeout = try options.seconds("timeout")
        let masks = Locked<[SecretMask]>([])
        Display.filter.withLock { $0 = { text in masks.withLock { $0 }.reduce(text) { $1.masked($0) } } }
        Display.archiveFilter.withLock { $0 = { data in masks.withLock { $0 }.reduce(data) { $1.masked(json: $0) } } }
        defer {
            Display.filter.withLock { $0 = nil }
            Display.archiveFilter.withLock { $0 = nil }
        }
        var kinds: [FailureKind] = []
        for (index, row) in rows.enumerated() where Interruption.shared.status == nil {
            let item = try prepare(row, setting, settings, timeout: timeout)
            masks.withLock { $0.append(item.run.secrets) }
            if setting.isPreview {
                if index > 0 { display.say("") }
                display.say(preview(of: item.run))
                continue
            }
            if row.data.number != nil { display.say("\(row.data.title) of \(rows.count)") }
            let result = wait(for: item.run)
            settings.trace.finish()
            display.releaseRemarks()
            item.board.end(result)
            kinds += result.failures.compactMap(\.kind)
            for failure in result.storeFailures {
                display.complain(Printable.line(failure))
                kinds.append(.disk)
            }
            try write(result, of: row, setting)
            if setting.stops, !result.failures.isEmpty { break }
        }
        if setting.isPreview { return .success }
        // Requests that were cancelled by a stop add no information.
        let causes = kinds.filter { $0 != .cancelled }
        let status = Interruption.shared.status ?? ExitStatus(failures: causes.isEmpty ? kinds : causes)
        return settings.finish(status, display)
    }

    private static func preview(of run: WorkflowRun) -> String {
        let requests = run.preview().map { text in
            text.split(separator: "\n", omittingEmptySubsequences: false).map { Printable.line(String($0)) }
        }
        return requests.map { $0.joined(separator: "\n") }.joined(separator: "\n\n")
    }

    private struct Prepared: Sendable {
        let run: WorkflowRun
        let board: WorkflowBoard
    }

    private static func prepare(
        _ row: Row, _ setting: Setting, _ settings: TransferSettings, timeout: Double?
    ) throws(ToolError) -> Prepared {
        var run = WorkflowRun.Options()
        run.directory = UserPath.url(setting.directory, isDirectory: true)
        run.replacesFiles = setting.replaces
        run.stopsAfterFailure = setting.stops
        run.jobs = settings.speed.jobs
        run.resumes = setting.resumes
        run.userAgent = Program.userAgent
        run.showsSecrets = Shown.secrets
        run.collectsMetrics = setting.reports.timeline != nil
        if let journal = setting.journal {
            run.journal = UserPath.url(row.data.number.map { OutputFile.numbered(journal, $0) } ?? journal)
            do throws(ToolError) {
                try Directories.prepare(setting.directory)
            } catch {
                // A directory that is only needed for the journal does not prevent the run.
                guard !row.workflow.hasOutputs, !setting.resumes else { throw error }
                setting.display.complain("\(error.text); --resume will not work after this run")
                run.journal = nil
            }
        }
        run.configure = { operation, number in
            guard let url = operation.request.url else { return }
            try? settings.apply(to: operation, url, operation.connectionConfiguration, number: number, heard: { _ in })
            settings.speed.apply(to: operation)
            // The manifest takes precedence; 60 seconds is the default of all requests.
            if let timeout, operation.request.timeoutInterval == 60 { operation.idleTimeout = timeout }
        }
        let board = WorkflowBoard(
            setting.display, row.workflow, row: row.data.number == nil ? nil : row.data, printsJSON: setting.printsJSON,
            printsNothing: setting.reports.printsTAP)
        func make() throws(ToolError) -> WorkflowRun {
            do {
                return try WorkflowRun(row.workflow, options: run) { board.take($0) }
            } catch let error as JournalInUseError {
                let file = Printable.line(error.file.relativePath)
                throw .disk("the journal \(file) is in use by another run: wait for it to end, or use another --directory")
            } catch {
                let line = "\(Printable.line(setting.journal ?? "")): \(ErrorText.line(for: error))"
                guard !setting.resumes, run.journal != nil else { throw .disk(line) }
                // A directory that cannot be written does not prevent the run.
                setting.display.complain("\(line); --resume will not work after this run")
                run.journal = nil
                return try make()
            }
        }
        let made = try make()
        settings.speed.applyHostLimits(to: made.manager)
        return Prepared(run: made, board: board)
    }

    /// Runs a workflow and waits for it on this thread, which must not belong to Swift's concurrency pool.
    static func wait(for run: WorkflowRun) -> WorkflowResult {
        let isOver = DispatchSemaphore(value: 0)
        let result = Locked(WorkflowResult())
        Interruption.shared.onInterrupt { run.cancel() }
        Task {
            let ended = await run.run()
            result.withLock { $0 = ended }
            isOver.signal()
        }
        isOver.wait()
        return result.withLock { $0 }
    }

    private static func write(
        _ result: WorkflowResult, of row: Row, _ setting: Setting
    ) throws(ToolError) {
        let (workflow, row) = (row.workflow, row.data.number)
        if setting.reports.printsTAP { setting.display.emit(String(result.tap(name: workflow.name).dropLast())) }
        try setting.reports.junit?.numbered(row).write(Data(result.junit(name: workflow.name).utf8))
        try setting.reports.timeline?.numbered(row).write(Data(result.timeline(of: workflow).utf8))
    }
}

/// `convoy check`: validates manifests without sending anything.
enum CheckCommand {
    static func run(_ options: Options, _ display: Display) throws(ToolError) -> ExitStatus {
        guard !options.arguments.isEmpty else { throw options.usage("no manifest") }
        let inputs = try WorkflowOptions.inputs(options)
        var workflows: [Workflow] = []
        for file in options.arguments {
            let name = file == "-" ? "standard input" : file
            let contents = try InputFile.contents(
                of: file, called: "the manifest \(Printable.line(name))", limit: DownloadList.maximumLength)
            let count: Int
            if Workflow.isManifest(contents) {
                let workflow = try WorkflowCommand.workflow(contents, name: name, inputs, options)
                workflows.append(workflow)
                count = workflow.requestIDs.count
            } else {
                count = try Manifest(contents, name: name, timeout: nil).requests.count
            }
            display.say("\(Printable.line(name)): \(count == 1 ? "1 request" : "\(count) requests"), no mistakes")
        }
        if !workflows.isEmpty { try WorkflowOptions.check(options, inputs, workflows, display) }
        return .success
    }
}
