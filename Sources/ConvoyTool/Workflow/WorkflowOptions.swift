import Convoy
import ConvoyWorkflow
import Foundation

/// The options that set the values of a manifest.
enum WorkflowOptions {
    private static let maximumLength = 16 << 20

    /// Returns the variables and the environment, including those of `--env-file` and `--var`.
    static func inputs(_ options: Options) throws(ToolError) -> WorkflowInputs {
        var inputs = WorkflowInputs()
        if let directory = options.value("file-root") {
            guard InputDirectory.isDirectory(directory) else {
                throw options.usage("--file-root: \(Printable.line(directory)) is not a directory")
            }
            inputs.fileRoot = UserPath.url(directory, isDirectory: true)
        }
        for file in options.all("env-file") {
            let data = try InputFile.contents(of: file, called: "--env-file \(Printable.line(file))", limit: maximumLength)
            for variable in try EnvironmentFile.variables(in: data, file) {
                inputs.environment[variable.name] = variable.value
                if variable.isQuoted {
                    inputs.typedNames.remove(variable.name)
                } else {
                    inputs.typedNames.insert(variable.name)
                }
            }
        }
        for text in options.all("var") {
            guard let equals = text.firstIndex(of: "="), equals > text.startIndex else {
                throw options.usage("--var takes NAME=VALUE")
            }
            inputs.variables[String(text[..<equals])] = WorkflowInputs.value(
                of: String(text[text.index(after: equals)...]))
        }
        return inputs
    }

    /// Rejects command-line variables that none of the manifests declares.
    static func check(
        _ options: Options, _ inputs: WorkflowInputs, _ workflows: [Workflow]
    ) throws(ToolError) {
        for name in inputs.variables.keys.sorted() {
            let complaints = workflows.compactMap { $0.complaint(aboutVariable: name) }
            guard let complaint = complaints.first, complaints.count == workflows.count else { continue }
            throw options.usage("--var: \(Printable.line(complaint)) in \(Printable.line(workflows[0].name))")
        }
    }

    /// Prints the notes of manifests.
    static func printNotes(of workflows: [Workflow], _ display: Display) {
        for note in workflows.flatMap(\.notes) { display.complain(Printable.line(Shown.text(note))) }
    }

    /// Returns the rows of `--data`, each as variables named by the first row (RFC 4180), or a single row without variables
    /// if the option is not given.
    static func rows(_ options: Options) throws(ToolError) -> [DataRow] {
        guard let file = options.value("data") else { return [DataRow(number: nil, columns: [])] }
        let data = try InputFile.contents(of: file, called: "--data \(Printable.line(file))", limit: maximumLength)
        guard let text = String(validating: data, as: UTF8.self) else {
            throw .usage("\(Printable.line(file)) is not UTF-8")
        }
        let rows = try records(in: text, file)
        guard let names = rows.first?.map(\.text), rows.count > 1 else {
            throw .usage("\(Printable.line(file)) has no rows below the header row")
        }
        if let twice = names.first(where: { name in names.count { $0 == name } > 1 }) {
            throw .usage("\(Printable.line(file)): two columns have the name \"\(Printable.line(twice))\"")
        }
        var all: [DataRow] = []
        for (index, row) in rows.dropFirst().enumerated() {
            guard row.count == names.count else {
                throw .usage(
                    "\(Printable.line(file)): row \(index + 2) has \(row.count == 1 ? "1 field" : "\(row.count) fields"), but the header row has \(names.count)"
                )
            }
            all.append(DataRow(number: index + 1, columns: Array(zip(names, row.map(\.value)))))
        }
        return all
    }

    /// A field of a row.
    struct Field: Equatable {
        let text: String
        /// Whether the field is in quotes, and therefore a string.
        let isQuoted: Bool

        var value: JSON { isQuoted ? .string(text) : WorkflowInputs.value(of: text) }
    }

    static func records(in text: String, _ file: String) throws(ToolError) -> [[Field]] {
        var rows: [[Field]] = [], row: [Field] = [], field = "", isQuoted = false, wasQuoted = false
        var rest = Substring(text.hasPrefix("\u{FEFF}") ? String(text.dropFirst()) : text)[...]
        func end() {
            row.append(Field(text: field, isQuoted: wasQuoted))
            field = ""
            wasQuoted = false
        }
        while let character = rest.popFirst() {
            if isQuoted {
                guard character == "\"" else {
                    field.append(character)
                    continue
                }
                if rest.first == "\"" { field.append(rest.removeFirst()) } else { isQuoted = false }
            } else if character == "\"", field.isEmpty, !wasQuoted {
                isQuoted = true
                wasQuoted = true
            } else if character == "," {
                end()
            } else if character.isNewline {
                if row.isEmpty, field.isEmpty, !wasQuoted { continue }
                end()
                rows.append(row)
                row = []
            } else {
                field.append(character)
            }
        }
        guard !isQuoted else { throw .usage("\(Printable.line(file)): the closing quote is missing") }
        if !row.isEmpty || !field.isEmpty || wasQuoted {
            end()
            rows.append(row)
        }
        return rows
    }
}

/// A row of the `--data` file, with the variables that it sets.
struct DataRow: Sendable {
    /// The row number, from 1, or nil for a run without rows.
    let number: Int?
    let columns: [(name: String, value: JSON)]
    /// The secrets that may occur in the values.
    var secrets = SecretMask()

    var variables: [String: JSON] { Dictionary(columns.map { ($0.name, $0.value) }, uniquingKeysWith: { $1 }) }

    /// The row number and the values, for messages: `row 2 (user=ada, n=1)`.
    var title: String {
        // Mask before shortening, because a shortened secret is not recognized.
        let values = columns.map { name, value in
            let shown = secrets.masked(value, named: name)
            return if case .string(let text) = shown { "\(name)=\(text)" } else { "\(name)=\(shown)" }
        }.joined(separator: ", ")
        return "row \(number ?? 1) (\(Printable.cut(Printable.line(values), to: 60)))"
    }
}

/// The reports that `--report` and `--timeline` request.
struct ReportOptions {
    private var files: [(format: String, file: OutputFile)] = []
    /// The page, which needs the metrics of the requests.
    private(set) var page: OutputFile?
    private(set) var printsTAP = false

    private static let formats = ["junit", "tap", "json", "html"]

    init(_ options: Options) throws(ToolError) {
        if let path = options.value("timeline") { page = try OutputFile(path, option: "timeline") }
        for text in options.all("report") {
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            if text == "tap" {
                printsTAP = true
            } else if parts.count == 2, parts[0] == "html" {
                guard page == nil else { throw options.usage("--report html=FILE and --timeline are the same page") }
                page = try OutputFile(parts[1], option: "report")
            } else if parts.count == 2, Self.formats.contains(parts[0]) {
                files.append((parts[0], try OutputFile(parts[1], option: "report")))
            } else {
                throw options.usage("--report takes tap, or junit=FILE, tap=FILE, json=FILE or html=FILE")
            }
        }
    }

    func write(_ report: WorkflowReport, _ display: Display) throws(ToolError) {
        if printsTAP { display.emit(String(report.tap.dropLast())) }
        for (format, file) in files {
            let text = format == "junit" ? report.junit : format == "tap" ? report.tap : report.json
            try file.write(Data(text.utf8))
        }
        try page?.write(Data(report.html.utf8))
    }
}
