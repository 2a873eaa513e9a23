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
        let fileCount: Int
        let rowCount: Int
        let rounds: Int

        /// Returns the journal of a row. Journals are stored beside the outputs, so that each output directory has a
        /// separate run. A manifest from a pipe has none.
        func journal(of row: WorkflowRow) -> String? {
            guard !row.file.isStream, !isPreview else { return nil }
            // Manifests in different directories may have the same name.
            let name =
                fileCount == 1 ? PathText.name(of: row.file.name) : row.file.name.replacing("/", with: "-")
            let path = PathText.join(directory, ".\(name).convoyrun")
            return row.data.number.map { OutputFile.numbered(path, $0) } ?? path
        }

        /// Returns the name of a run within the command, or nil if there is only one run.
        func title(of row: WorkflowRow, round: Int) -> String? {
            var parts: [String] = []
            if fileCount > 1 { parts.append(Printable.line(row.file.name)) }
            if row.data.number != nil { parts.append("\(row.data.title) of \(rowCount)") }
            if rounds > 1 { parts.append("round \(round) of \(rounds)") }
            return parts.isEmpty ? nil : parts.joined(separator: ", ")
        }
    }

    /// The options that only manifests with named requests support.
    static let options = [
        "var", "env-file", "only", "skip", "keep-going", "fail-fast", "graph", "data", "report", "timeline", "resume",
        "repeat", "shard", "file-root", "no-expect",
    ]

    static func run(_ files: [ManifestFile], _ options: Options) throws(ToolError) -> ExitStatus {
        let display = try Display(options, printsBodies: false)
        let reports = try ReportOptions(options)
        let inputs = try WorkflowOptions.inputs(options)
        let data = try WorkflowOptions.rows(options)
        let all = try WorkflowSelection.rows(of: files, inputs, data)
        let rounds = try options.integer("repeat", in: 1...10_000) ?? 1
        try WorkflowOptions.check(options, inputs, all.map(\.workflow))
        var rows = try WorkflowSelection.selected(all, options)
        // The rows of a manifest have the same notes.
        WorkflowOptions.printNotes(of: rows.filter { $0.data.number ?? 1 == 1 }.map(\.workflow), display)
        for column in data[0].columns {
            let complaints = all.compactMap { $0.workflow.complaint(aboutVariable: column.name) }
            guard let complaint = complaints.first, complaints.count == all.count else { continue }
            let place = files.count == 1 ? Printable.line(files[0].name) : "\(files.count) manifests"
            display.complain("--data: \(Printable.line(complaint)) in \(place): the column is not used")
        }
        if let text = options.value("graph") {
            guard let format = Workflow.GraphFormat(rawValue: text) else {
                throw options.usage("--graph takes dot or mermaid")
            }
            guard files.count == 1, let workflow = rows.first?.workflow else {
                throw options.usage("--graph takes one manifest")
            }
            display.emit(workflow.graph(format))
            return .success
        }
        let directory = options.value("directory") ?? "."
        guard !directory.isEmpty else { throw options.usage("--directory needs a directory") }
        if options.has("resume"), files.contains(where: \.isStream) {
            throw options.usage("--resume requires a manifest in a file")
        }
        let setting = Setting(
            display: display, reports: reports, directory: directory, replaces: options.has("force"),
            isPreview: options.has("dry-run"), resumes: options.has("resume"), stops: options.has("fail-fast"),
            printsJSON: options.has("json"), fileCount: files.count, rowCount: data.count, rounds: rounds)
        for index in rows.indices { rows[index].data.secrets = rows[index].workflow.secrets(hidesNamed: !Shown.secrets) }
        if rows.isEmpty { display.say("this part of --shard has nothing to run") }
        try checkOutputs(rows, setting, options)
        return try run(rows, setting, options)
    }

    /// Checks all outputs before the first request: running half of the rows is worse than running nothing.
    private static func checkOutputs(
        _ rows: [WorkflowRow], _ setting: Setting, _ options: Options
    ) throws(ToolError) {
        if setting.rounds > 1, !setting.replaces, rows.contains(where: \.workflow.hasOutputs) {
            throw options.usage("--repeat requires --force, because the requests write files")
        }
        var owners: [Data: WorkflowRow] = [:]
        for row in rows {
            for output in row.workflow.knownOutputs {
                let path = PathText.join(setting.directory, output)
                if let other = owners.updateValue(row, forKey: Data(output.utf8)) {
                    let titles = [other, row].map { row in
                        let title = row.data.number == nil ? "" : row.data.title
                        return setting.fileCount == 1 ? title : "\(Printable.line(row.file.name)) \(title)"
                    }
                    let shown = row.data.secrets.masked(Printable.line(output)),
                        start = row.data.number == nil ? "" : "--data: "
                    throw .usage("\(start)\(titles[0]) and \(titles[1]) have the same output, \(shown)")
                }
                guard !setting.replaces, !setting.resumes, !setting.isPreview else { continue }
                let shown = row.data.secrets.masked(setting.directory == "." ? output : path)
                if FileManager.default.fileExists(atPath: path) { throw FileProblem.exists(shown) }
            }
        }
    }

    private static func run(
        _ rows: [WorkflowRow], _ setting: Setting, _ options: Options
    ) throws(ToolError) -> ExitStatus {
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
        // One mask replaces the secrets of all runs, the longest first, because one may be part of another.
        let all = SecretMask(), current = Locked<SecretMask?>(nil)
        @Sendable func mask() -> SecretMask {
            // The current run may have found further secrets.
            current.withLock { $0 }.map { all.add(from: $0) }
            return all
        }
        Display.filter.withLock { $0 = { mask().masked($0) } }
        Display.archiveFilter.withLock { $0 = { mask().masked(json: $0) } }
        defer {
            Display.filter.withLock { $0 = nil }
            Display.archiveFilter.withLock { $0 = nil }
        }
        var kinds: [FailureKind] = [], report = WorkflowReport(), seconds = 0.0
        let runs = (1...setting.rounds).lazy.flatMap { round in rows.map { (row: $0, round: round) } }
        for (index, (row, round)) in runs.enumerated() where Interruption.shared.status == nil {
            let item = try prepare(row, setting, settings, timeout: timeout)
            _ = mask()
            current.withLock { $0 = item.run.secrets }
            if setting.isPreview {
                guard round == 1 else { break }
                if index > 0 { display.say("") }
                display.say(preview(of: item.run))
                continue
            }
            let title = setting.title(of: row, round: round)
            if let title { display.say(title) }
            let result = item.run.wait()
            settings.trace.finish()
            display.releaseRemarks()
            item.board.end(result)
            kinds += result.failures.compactMap(\.kind)
            for failure in result.storeFailures {
                display.complain(Printable.line(failure))
                kinds.append(.disk)
            }
            seconds += result.seconds
            report.add(result, of: row.workflow, title: title.map { setting.fileCount > 1 ? $0 : "\(row.file.name): \($0)" })
            if setting.stops, !result.failures.isEmpty { break }
        }
        if setting.isPreview { return .success }
        if rows.count * setting.rounds > 1, !setting.reports.printsTAP {
            display.say("\(WorkflowLines.total(report.outcomes)), in \(Amounts.seconds(seconds)) in all")
        }
        try setting.reports.write(report, display)
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
        _ row: WorkflowRow, _ setting: Setting, _ settings: TransferSettings, timeout: Double?
    ) throws(ToolError) -> Prepared {
        var run = WorkflowRun.Options()
        run.directory = UserPath.url(setting.directory, isDirectory: true)
        run.replacesFiles = setting.replaces
        run.stopsAfterFailure = setting.stops
        run.jobs = settings.speed.jobs
        run.resumes = setting.resumes
        run.userAgent = Program.userAgent
        run.showsSecrets = Shown.secrets
        run.collectsMetrics = setting.reports.page != nil
        let journal = setting.journal(of: row)
        if let journal {
            run.journal = UserPath.url(journal)
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
                let line = "\(Printable.line(journal ?? "")): \(ErrorText.line(for: error))"
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
}

/// `convoy check`: validates manifests without sending anything.
enum CheckCommand {
    static func run(_ options: Options, _ display: Display) throws(ToolError) -> ExitStatus {
        let inputs = try WorkflowOptions.inputs(options)
        var workflows: [Workflow] = []
        for file in try ManifestFile.all(options) {
            let count: Int
            if Workflow.isManifest(file.contents) {
                let workflow = try WorkflowSelection.workflow(file, inputs)
                workflows.append(workflow)
                count = workflow.requestIDs.count
            } else {
                count = try Manifest(file.contents, name: file.name, timeout: nil).requests.count
            }
            display.say("\(Printable.line(file.name)): \(count == 1 ? "1 request" : "\(count) requests"), no mistakes")
        }
        if !workflows.isEmpty { try WorkflowOptions.check(options, inputs, workflows) }
        WorkflowOptions.printNotes(of: workflows, display)
        return .success
    }
}
