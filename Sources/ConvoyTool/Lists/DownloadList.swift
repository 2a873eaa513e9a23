import Convoy
import ConvoySupport
import Foundation

/// A file to download, as the command line, a list or a Metalink names it.
struct DownloadItem: Sendable {
    /// A place in a list.
    struct Place: Sendable, Equatable {
        /// The list, as the user has named it.
        let list: String
        let line: Int
    }

    /// Where it is, with user and password; the first is asked first.
    var urls: [URL]
    /// The first URL as it was given.
    let text: String
    /// Where a list has it; nil for one of the command line or of a Metalink.
    var place: Place?
    /// Its path below the directory; nil if the URL, or the server, tells its name.
    var name: String?
    /// nil for that of the command line.
    var directory: String?
    var checksum: Checksum?
    /// Header fields for this file only: `Name: value`.
    var headers: [String] = []
    var segments: Int?
    /// What a Metalink says of it.
    var metalink: Metalink.File?

    /// An argument of the command line.
    init(argument text: String) throws(ToolError) { (urls, self.text) = ([try DownloadURL.parse(text)], text) }

    init(urls: [URL], text: String) { (self.urls, self.text) = (urls, text) }
}

/// The text of a file in a list: a line with URLs, and those below it that are about the file.
struct DownloadEntry: Sendable {
    let line: Int
    let text: String
    var options: [(line: Int, text: String)] = []

    /// Whether it is a URL, and nothing else, that needs no closer look to be known as one.
    var isPlain: Bool { options.isEmpty && DownloadURL.isPlain(text) }
}

/// The format of lists of downloads, which is that of aria2's input files, and of Metalinks.
///
/// A line has a URL, or several of the same file with tabs between them. Lines below it that begin with a space or a tab
/// are options of that file.
enum DownloadList {
    /// The largest Metalink and the largest manifest that are read, in bytes.
    static let maximumLength = 256 << 20

    // MARK: Metalinks

    static func metalink(_ data: Data, _ name: String) throws(ToolError) -> [DownloadItem] {
        let metalink: Metalink
        do throws(MetalinkError) {
            metalink = try Metalink(parsing: data)
        } catch {
            throw .usage("\(name): \(Printable.line(error.description))")
        }
        return try metalink.files.map { file throws(ToolError) in
            guard let first = file.mirrors.first else {
                throw .usage("\(name): there is no URL of http or https for \(Printable.line(file.name))")
            }
            var item = DownloadItem(urls: file.mirrors.map(\.url), text: first.url.absoluteString)
            item.name = file.pathComponents.joined(separator: "/")
            item.metalink = file
            return item
        }
    }

    // MARK: Lists

    /// The file of an entry.
    ///
    /// - Throws: a usage error with the line.
    static func item(_ entry: DownloadEntry, _ name: String) throws(ToolError) -> DownloadItem {
        let texts = entry.text.split(separator: "\t").map { $0.trimmingCharacters(in: .whitespaces) }
        let addresses = texts.filter { !$0.isEmpty }
        var item = try located(name, entry.line) { () throws(ToolError) in
            DownloadItem(
                urls: try addresses.map { text throws(ToolError) in try DownloadURL.parse(text) },
                text: addresses.first ?? "")
        }
        item.place = DownloadItem.Place(list: name, line: entry.line)
        for (line, text) in entry.options {
            try located(name, line) { () throws(ToolError) in try read(option: text, into: &item) }
        }
        return item
    }

    /// Adds the place to an error.
    static func located<Value>(
        _ name: String, _ line: Int, _ body: () throws(ToolError) -> Value
    ) throws(ToolError) -> Value {
        do throws(ToolError) {
            return try body()
        } catch {
            // A line may be the whole of a file that is no list.
            let text = error.text.count > 400 ? error.text.prefix(400) + "…" : error.text[...]
            throw ToolError(text: "\(name):\(line): \(text)", status: error.status)
        }
    }

    private static func read(option: String, into item: inout DownloadItem) throws(ToolError) {
        let parts = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts[0].trimmingCharacters(in: .whitespaces)
        guard parts.count == 2 else { throw .usage("the option '\(Printable.line(name))' has no value: NAME=VALUE") }
        let value = parts[1].trimmingCharacters(in: .whitespaces)
        switch name {
        case "out":
            guard let path = RelativePath.normalized(value) else {
                throw .usage("bad out '\(Printable.line(value))': it must be a path below the directory")
            }
            item.name = path
        case "dir":
            guard !value.isEmpty, !value.unicodeScalars.contains("\0") else { throw .usage("dir needs a directory") }
            item.directory = value
        case "checksum":
            item.checksum = try checksum(value)
        case "header":
            try Headers.check(value)
            item.headers.append(value)
        case "split":
            guard let count = Int(value), (1...64).contains(count) else {
                throw .usage("split takes a whole number from 1 to 64")
            }
            item.segments = count
        default:
            throw .usage("unknown option '\(Printable.line(name))'; there are out, dir, checksum, header and split")
        }
    }

    /// A checksum as `sha-256=HEX`.
    static func checksum(_ text: String) throws(ToolError) -> Checksum {
        do throws(ChecksumError) {
            return try Checksum(parsing: text)
        } catch {
            throw .usage("bad checksum '\(Printable.line(text))': \(Printable.line(error.description))")
        }
    }
}
