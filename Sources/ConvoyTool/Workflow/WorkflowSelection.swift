import Convoy
import ConvoyWorkflow
import Foundation

/// A manifest with the values of a row of `--data`, which is run once or several times.
struct WorkflowRow: Sendable {
    var workflow: Workflow
    let file: ManifestFile
    var data: DataRow
}

/// The parts of the manifests that a command runs.
enum WorkflowSelection {
    /// Reads a manifest with the values of the options.
    static func workflow(_ file: ManifestFile, _ inputs: WorkflowInputs) throws(ToolError) -> Workflow {
        do throws(ManifestError) {
            return try Workflow(parsing: file.contents, name: file.name, inputs: inputs)
        } catch {
            throw .usage(Printable.line(Shown.text(error.description)))
        }
    }

    /// Returns all manifests with all rows.
    static func rows(
        of files: [ManifestFile], _ inputs: WorkflowInputs, _ data: [DataRow]
    ) throws(ToolError) -> [WorkflowRow] {
        var rows: [WorkflowRow] = []
        for file in files {
            for row in data {
                var inputs = inputs
                inputs.variables.merge(row.variables) { given, _ in given }
                do throws(ToolError) {
                    rows.append(WorkflowRow(workflow: try workflow(file, inputs), file: file, data: row))
                } catch {
                    guard let number = row.number, number > 1 else { throw error }
                    // Name only the row, because its values may be undeclared secrets.
                    throw ToolError(text: "--data: row \(number): \(error.text)", status: error.status)
                }
            }
        }
        return rows
    }

    /// Returns the requests and the share of the rows that the options select.
    static func selected(_ rows: [WorkflowRow], _ options: Options) throws(ToolError) -> [WorkflowRow] {
        var selected = try shard(of: try reduced(rows, options), options)
        guard options.has("no-expect") else { return selected }
        for index in selected.indices { selected[index].workflow = selected[index].workflow.acceptingAllResponses() }
        return selected
    }

    /// Applies `--only` and `--skip`. A manifest in which `--only` names nothing is not run.
    private static func reduced(_ rows: [WorkflowRow], _ options: Options) throws(ToolError) -> [WorkflowRow] {
        let (wanted, skipped) = (try names("only", in: rows, options), try names("skip", in: rows, options))
        var selected: [WorkflowRow] = [], isReduced = false
        for var row in rows {
            if let skipped {
                row.workflow = row.workflow.skipping(known(skipped, in: row.workflow)) ?? row.workflow
            }
            guard !row.workflow.requestIDs.isEmpty else { continue }
            if let wanted {
                let names = known(wanted, in: row.workflow)
                guard !names.isEmpty else {
                    isReduced = true
                    continue
                }
                row.workflow = row.workflow.only(names) ?? row.workflow
            }
            selected.append(row)
        }
        guard selected.isEmpty else { return selected }
        throw options.usage(
            isReduced ? "--only and --skip leave nothing of a request to run" : "--skip leaves no request to run")
    }

    private static func known(_ names: [String], in workflow: Workflow) -> [String] {
        names.filter { workflow.unknownName(in: [$0]) == nil }
    }

    private static func names(
        _ option: String, in rows: [WorkflowRow], _ options: Options
    ) throws(ToolError) -> [String]? {
        guard options.has(option) else { return nil }
        let names = options.all(option).flatMap { $0.split(separator: ",").map(String.init) }
        guard !names.isEmpty else { throw options.usage("--\(option) needs the name of a request, or a tag") }
        for name in names where rows.allSatisfy({ $0.workflow.unknownName(in: [name]) != nil }) {
            let files = Set(rows.map(\.file.name))
            let place = files.count == 1 ? Printable.line(rows[0].file.name) : "\(files.count) manifests"
            throw options.usage("--\(option): unknown request \"\(Printable.line(name))\" in \(place)")
        }
        return names
    }

    /// Applies `--shard`: machine K of N runs every Nth manifest or row.
    private static func shard(of rows: [WorkflowRow], _ options: Options) throws(ToolError) -> [WorkflowRow] {
        guard let text = options.value("shard") else { return rows }
        let parts = text.split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
        guard parts.count == 2, let number = parts[0], let count = parts[1], (1...1000).contains(count),
            (1...count).contains(number)
        else { throw options.usage("--shard takes K/N, such as 1/4") }
        return rows.enumerated().filter { $0.offset % count == number - 1 }.map(\.element)
    }
}
