import Convoy
import ConvoyWorkflow
import Foundation

/// The options that give a manifest its values.
enum WorkflowOptions {
    private static let maximumLength = 16 << 20

    /// Variables and the environment, with those of `--env-file` and `--var`.
    static func inputs(_ options: Options) throws(ToolError) -> WorkflowInputs {
        var inputs = WorkflowInputs()
        for file in options.all("env-file") {
            let data = try InputFile.contents(of: file, called: "--env-file \(Printable.line(file))", limit: maximumLength)
            for (name, value) in try variables(in: data, file) { inputs.environment[name] = value }
        }
        for text in options.all("var") {
            guard let equals = text.firstIndex(of: "="), equals > text.startIndex else {
                throw options.usage("--var takes NAME=VALUE")
            }
            inputs.variables[String(text[..<equals])] = String(text[text.index(after: equals)...])
        }
        return inputs
    }

    /// The lines of an environment file: `NAME=VALUE`, with or without `export` and quotes, and comments.
    static func variables(in data: Data, _ file: String) throws(ToolError) -> [(String, String)] {
        var variables: [(String, String)] = []
        guard let text = String(validating: data.starts(with: [0xEF, 0xBB, 0xBF]) ? data.dropFirst(3) : data, as: UTF8.self)
        else {
            throw .usage("\(Printable.line(file)) is not UTF-8")
        }
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            var line = line.trimmingCharacters(in: .whitespaces)
            if line.isEmpty || line.hasPrefix("#") { continue }
            if line.hasPrefix("export ") { line = line.dropFirst(7).trimmingCharacters(in: .whitespaces) }
            guard let equals = line.firstIndex(of: "="), equals > line.startIndex else {
                throw .usage("\(Printable.line(file)):\(index + 1): not NAME=VALUE")
            }
            var value = String(line[line.index(after: equals)...])
            for mark in ["\"", "'"] where value.count > 1 && value.hasPrefix(mark) && value.hasSuffix(mark) {
                value = String(value.dropFirst().dropLast())
                break
            }
            variables.append((line[..<equals].trimmingCharacters(in: .whitespaces), value))
        }
        return variables
    }

    /// The rows of `--data`, each as variables by the names in the first row (RFC 4180). One row without variables, if there
    /// is no such option.
    static func rows(_ options: Options) throws(ToolError) -> [[String: String]] {
        guard let file = options.value("data") else { return [[:]] }
        let data = try InputFile.contents(of: file, called: "--data \(Printable.line(file))", limit: maximumLength)
        guard let text = String(validating: data, as: UTF8.self) else {
            throw .usage("\(Printable.line(file)) is not UTF-8")
        }
        let rows = try records(in: text, file)
        guard let names = rows.first, rows.count > 1 else {
            throw .usage("\(Printable.line(file)) has no rows below its names")
        }
        var all: [[String: String]] = []
        for (index, row) in rows.dropFirst().enumerated() {
            guard row.count == names.count else {
                throw .usage(
                    "\(Printable.line(file)): row \(index + 2) has \(row.count) fields, and the first has \(names.count)")
            }
            all.append(Dictionary(zip(names, row), uniquingKeysWith: { first, _ in first }))
        }
        return all
    }

    static func records(in text: String, _ file: String) throws(ToolError) -> [[String]] {
        var rows: [[String]] = [], row: [String] = [], field = "", isQuoted = false, wasQuoted = false
        var rest = Substring(text.hasPrefix("\u{FEFF}") ? String(text.dropFirst()) : text)[...]
        func end() {
            row.append(field)
            (field, wasQuoted) = ("", false)
        }
        while let character = rest.popFirst() {
            if isQuoted {
                guard character == "\"" else {
                    field.append(character)
                    continue
                }
                if rest.first == "\"" { field.append(rest.removeFirst()) } else { isQuoted = false }
            } else if character == "\"", field.isEmpty, !wasQuoted {
                (isQuoted, wasQuoted) = (true, true)
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
        guard !isQuoted else { throw .usage("\(Printable.line(file)): a quote has no end") }
        if !row.isEmpty || !field.isEmpty || wasQuoted {
            end()
            rows.append(row)
        }
        return rows
    }
}

/// The reports that `--report` asks for.
struct ReportOptions {
    private(set) var junit: String?
    private(set) var printsTAP = false

    init(_ options: Options) throws(ToolError) {
        for text in options.all("report") {
            if text == "tap" {
                printsTAP = true
            } else if text.hasPrefix("junit="), text.count > 6 {
                junit = String(text.dropFirst(6))
            } else {
                throw options.usage("--report takes junit=FILE or tap")
            }
        }
        if printsTAP, options.has("json") { throw options.usage("--report tap and --json both need standard output") }
    }
}
