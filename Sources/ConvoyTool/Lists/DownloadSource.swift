import Convoy
import ConvoySupport
import Foundation

/// The files on the command line and in its lists, in order, read on demand.
final class DownloadSource {
    /// A waiting file. Entries that have not been examined are small.
    enum Waiting: Sendable {
        case item(DownloadItem)
        case entry(DownloadEntry, list: String)

        /// Returns the item.
        ///
        /// - Throws: A usage error with the line of a list.
        func item() throws(ToolError) -> DownloadItem {
            switch self {
            case .item(let item): item
            case .entry(let entry, let list): try DownloadList.item(entry, list)
            }
        }

        /// The requested URL, for messages.
        var text: String {
            switch self {
            case .item(let item): item.text
            case .entry(let entry, _): entry.text
            }
        }

        var place: DownloadItem.Place? {
            switch self {
            case .item(let item): item.place
            case .entry(let entry, let list): DownloadItem.Place(list: list, line: entry.line)
            }
        }
    }

    enum Next {
        /// A file, and whether it was checked before anything was sent.
        case file(Waiting, isChecked: Bool)
        /// A line with an error.
        case mistake(ToolError)
        /// No further line has arrived yet from a list that is read from a pipe.
        case nothingYet
        case end
    }

    private enum Part {
        case items([DownloadItem])
        case list(ListReader)
    }

    private var parts: [Part] = []
    private var part = 0
    private var index = 0
    /// The number of files, or nil while a list is still being read from a pipe.
    private(set) var count: Int?
    /// The number of files returned so far.
    private var taken = 0

    /// Throws a usage error for an invalid URL, an unreadable list or a missing URL.
    init(_ options: Options) throws(ToolError) {
        let items = try options.arguments.map { text throws(ToolError) in try DownloadItem(argument: text, options) }
        if !items.isEmpty { parts.append(.items(items)) }
        let lists = options.all("input-file")
        guard lists.filter({ $0 == "-" }).count < 2 else { throw options.usage("standard input can be read only once") }
        for path in lists {
            if path.contains("://") {
                throw options.usage("-i takes a list of URLs; to print the head, use --include or --head")
            }
            let reader = try ListReader(path, keepingDotSegments: options.keepsDotSegments)
            if let data = try reader.metalink() {
                parts.append(.items(try DownloadList.metalink(data, reader.name)))
            } else {
                reader.rewind()
                parts.append(.list(reader))
            }
        }
        guard !parts.isEmpty || !lists.isEmpty else { throw options.usage("no URL") }
    }

    /// Whether a list is still being read from a pipe, in which case its first files may already be downloading.
    var isOpen: Bool { parts.contains { if case .list(let reader) = $0 { !reader.isFile } else { false } } }

    /// Reads all files into memory.
    func load() throws(ToolError) -> [DownloadItem] {
        var items: [DownloadItem] = []
        for part in parts {
            switch part {
            case .items(let some): items += some
            case .list(let reader):
                while case .entry(let entry) = try reader.next() {
                    items.append(try DownloadList.item(entry, reader.name))
                }
            }
        }
        replace(by: items)
        return items
    }

    /// Replaces all files.
    func replace(by items: [DownloadItem]) {
        parts = [.items(items)]
        count = items.count
    }

    /// Reads all files that can be read again, to find errors before anything is sent.
    ///
    /// - Parameter isWanted: Whether to pass plain URLs of lists as well. Most entries are plain URLs, which are recognized
    ///   quickly.
    func check(
        plain isWanted: Bool, _ body: (DownloadItem) throws(ToolError) -> Void
    ) throws(ToolError) {
        var total = 0
        for part in parts {
            switch part {
            case .items(let items):
                for item in items { try body(item) }
                total += items.count
            case .list(let reader) where reader.isFile:
                while case .entry(let entry) = try reader.next() {
                    total += 1
                    if !isWanted, entry.isPlain, entry.options.isEmpty { continue }
                    let item = try DownloadList.item(entry, reader.name)
                    try DownloadList.located(reader.name, entry.line) { () throws(ToolError) in try body(item) }
                }
                reader.rewind()
            case .list: break
            }
        }
        count = isOpen ? nil : total
    }

    /// Returns the next file.
    ///
    /// - Parameter time: The maximum time to wait for a pipe, in milliseconds.
    func next(within time: Int32) -> Next {
        while part < parts.count {
            switch parts[part] {
            case .items(let items):
                if index < items.count {
                    index += 1
                    taken += 1
                    return .file(.item(items[index - 1]), isChecked: true)
                }
            case .list(let reader):
                do throws(ToolError) {
                    switch try reader.next(within: time) {
                    case .entry(let entry):
                        taken += 1
                        return .file(.entry(entry, list: reader.name), isChecked: reader.isFile)
                    case .nothingYet: return .nothingYet
                    case .end: break
                    }
                } catch {
                    taken += 1
                    return .mistake(error)
                }
            }
            part = part + 1
            index = 0
        }
        count = taken
        return .end
    }
}
