import Convoy
import ConvoySupport
import Foundation

/// The files of the command line and of its lists, one after the other, each when it is wanted.
final class DownloadSource {
    /// A file as it waits: what has not been looked at closely is small.
    enum Waiting: Sendable {
        case item(DownloadItem)
        case entry(DownloadEntry, list: String)

        /// - Throws: a usage error with the line of a list.
        func item() throws(ToolError) -> DownloadItem {
            switch self {
            case .item(let item): item
            case .entry(let entry, let list): try DownloadList.item(entry, list)
            }
        }

        /// What it asks for, for messages.
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
        /// A file, and whether it was looked at before anything was sent.
        case file(Waiting, isChecked: Bool)
        /// A line that is a mistake.
        case mistake(ToolError)
        /// A list that comes through a pipe has nothing yet.
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
    /// How many files there are; nil if a list comes through a pipe, and is not at its end.
    private(set) var count: Int?
    /// How many were taken.
    private var taken = 0

    /// - Throws: a usage error for a URL, a list that cannot be read, and none of them.
    init(_ options: Options) throws(ToolError) {
        let items = try options.arguments.map { text throws(ToolError) in try DownloadItem(argument: text) }
        if !items.isEmpty { parts.append(.items(items)) }
        let lists = options.all("input-file")
        guard lists.filter({ $0 == "-" }).count < 2 else { throw options.usage("standard input can be read once") }
        for path in lists {
            if path.contains("://") {
                throw options.usage("-i takes a list of URLs; --include prints the head before a body, and --head it alone")
            }
            let reader = try ListReader(path)
            if let data = try reader.metalink() {
                parts.append(.items(try DownloadList.metalink(data, reader.name)))
            } else {
                reader.rewind()
                parts.append(.list(reader))
            }
        }
        guard !parts.isEmpty || !lists.isEmpty else { throw options.usage("no URL") }
    }

    /// Whether a list comes through a pipe, so that it is read while the first files of it are fetched.
    var isOpen: Bool { parts.contains { if case .list(let reader) = $0 { !reader.isFile } else { false } } }

    /// Reads everything, and keeps it.
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

    /// Puts other files in the place of all.
    func replace(by items: [DownloadItem]) { (parts, count) = ([.items(items)], items.count) }

    /// Reads all files that can be read again, so that a mistake in them is found before anything is sent.
    ///
    /// - Parameter isWanted: whether a plain URL of a list is wanted, too. Most are no more than that, and are quickly told.
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
                    if !isWanted, entry.isPlain { continue }
                    let item = try DownloadList.item(entry, reader.name)
                    try DownloadList.located(reader.name, entry.line) { () throws(ToolError) in try body(item) }
                }
                reader.rewind()
            case .list: break
            }
        }
        count = isOpen ? nil : total
    }

    /// The next file.
    ///
    /// - Parameter time: how long it may wait for a pipe, in milliseconds.
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
            (part, index) = (part + 1, 0)
        }
        count = taken
        return .end
    }
}
