import ConvoySharedQueue
import ConvoySupport
import Foundation

/// A reader for the requests of a list: URLs, with options on the lines below them.
final class QueueListReader {
    private let reader: ListReader
    /// The failure to report after the requests before it have been added.
    private var failure: ToolError?
    private let options: Options
    /// The parts of requests without options of their own.
    private let parts: QueueRequestParts
    private let display: Display
    private var hasWarned = false

    /// - Parameters:
    ///   - options: The options of the command, which apply to lines that do not override them.
    ///   - parts: The parts that those options specify.
    ///   - display: Shows which header fields are not stored.
    init(_ reader: ListReader, _ options: Options, _ parts: QueueRequestParts, _ display: Display) {
        self.reader = reader
        self.options = options
        self.parts = parts
        self.display = display
    }

    /// Reads a list that can be read again, to find errors before anything is added.
    func check() throws(ToolError) {
        guard reader.isFile else { return }
        while case .entry(let entry) = try reader.next() { _ = try request(entry) }
        reader.rewind()
    }

    /// Returns the next requests; nil at the end. Those of a pipe are returned when no more have arrived for a moment.
    func next(_ limit: Int) throws(ToolError) -> [SharedRequest]? {
        if let failure { throw failure }
        var requests: [SharedRequest] = []
        do throws(ToolError) {
            while requests.count < limit {
                switch try reader.next(within: requests.isEmpty ? -1 : 100) {
                case .entry(let entry): requests.append(try request(entry))
                case .nothingYet: return requests
                case .end: return requests.isEmpty ? nil : requests
                }
            }
        } catch {
            guard !requests.isEmpty else { throw error }
            failure = error
        }
        return requests
    }

    private func request(_ entry: DownloadEntry) throws(ToolError) -> SharedRequest {
        let own = entry.options.isEmpty ? nil : try options(of: entry)
        if let own, !hasWarned, entry.options.contains(where: { $0.text.hasPrefix("header") }) {
            hasWarned = QueueAdd.warn(own, display)
        }
        return try DownloadList.located(reader.name, entry.line) { () throws(ToolError) in
            try (try own.map { own throws(ToolError) in try QueueRequestParts(own) } ?? parts).request(entry.text)
        }
    }

    /// The names of options in a list that equal those of the command, and of those that may be repeated.
    private static let names: Set<String> = [
        "method", "data", "header", "folder", "tag", "group", "after", "failed-dependency", "priority", "not-before",
        "deadline", "timeout", "attempts", "unique", "unique-for",
    ]
    private static let repeated: Set<String> = ["header", "after"]

    /// Returns the options of the command, overridden by those of an entry.
    private func options(of entry: DownloadEntry) throws(ToolError) -> Options {
        var values: [String: [String]?] = [:], name: String?
        for (line, text) in entry.options {
            try DownloadList.located(reader.name, line) { () throws(ToolError) in
                let (key, value) = try DownloadList.option(text)
                switch key {
                case "out":
                    guard let path = RelativePath.normalized(value) else {
                        throw .usage("invalid out '\(Printable.line(value))': it must be a path below the directory")
                    }
                    name = path
                case "dir": values["directory"] = [value]
                case _ where Self.names.contains(key):
                    let earlier = Self.repeated.contains(key) ? (values[key] ?? nil) ?? options.all(key) : []
                    values[key] = earlier + [value]
                default:
                    throw .usage(
                        "unknown option '\(Printable.line(key))'; the options are out, dir, "
                            + WordChoice.text(Self.names.sorted()).replacing(" or ", with: " and "))
                }
            }
        }
        if let name {
            let directory = (values["directory"] ?? nil)?.last ?? options.value("directory")
            values["output"] = [directory.map { PathText.join($0, name) } ?? name]
            values["directory"] = .some(nil)
        }
        return options.replacing(values)
    }
}
