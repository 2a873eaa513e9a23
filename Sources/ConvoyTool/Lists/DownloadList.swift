import Convoy
import ConvoySupport
import Foundation

/// A file to download, as given on the command line, in a list or in a Metalink.
struct DownloadItem: Sendable {
    /// A position in a list.
    struct Place: Sendable, Equatable {
        /// The path of the list, as given by the user.
        let list: String
        let line: Int
    }

    /// The URLs of the file, with user and password, in the order in which they are tried.
    var urls: [URL]
    /// The first URL as given by the user.
    let text: String
    /// The position in a list, or nil for a file from the command line or from a Metalink.
    var place: Place?
    /// The path below the directory, or nil if the URL or the server determines the name.
    var name: String?
    /// The directory, or nil for the directory given on the command line.
    var directory: String?
    var checksum: Checksum?
    /// Header fields for this file only, as `Name: value`.
    var headers: [String] = []
    var segments: Int?
    /// The file's description in a Metalink.
    var metalink: Metalink.File?

    /// Creates an item for a command-line argument.
    init(argument text: String, _ options: Options) throws(ToolError) {
        urls = [try options.url(text)]
        self.text = text
    }

    init(urls: [URL], text: String) {
        self.urls = urls
        self.text = text
    }
}

/// The lines about a file in a list: a line with URLs, and the lines below it with options.
struct DownloadEntry: Sendable {
    let line: Int
    let text: String
    /// Whether the text is a plain URL, which is valid without further checks.
    var isPlain = false
    /// Whether dot segments in the paths of its URLs are kept.
    var keepsDotSegments = false
    var options: [(line: Int, text: String)] = []
}

/// The format of download lists, which is that of aria2's input files, and of Metalinks.
///
/// Each line is a URL, or several URLs of the same file separated by tabs. Lines below it that begin with a space or a tab
/// are options of that file.
enum DownloadList {
    /// The maximum size of a Metalink or a manifest, in bytes.
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
                throw .usage("\(name): no http or https URL for \(Printable.line(file.name))")
            }
            var item = DownloadItem(urls: file.mirrors.map(\.url), text: first.url.absoluteString)
            item.name = file.pathComponents.joined(separator: "/")
            item.metalink = file
            return item
        }
    }

    // MARK: Lists

    /// Returns the file of an entry.
    ///
    /// - Throws: A usage error with the line.
    static func item(_ entry: DownloadEntry, _ name: String) throws(ToolError) -> DownloadItem {
        let addresses = entry.isPlain ? [entry.text] : addresses(of: entry.text)
        var item = try located(name, entry.line) { () throws(ToolError) in
            DownloadItem(
                urls: try addresses.map { text throws(ToolError) in
                    try DownloadURL.parse(text, keepingDotSegments: entry.keepsDotSegments)
                },
                text: addresses.first ?? "")
        }
        item.place = DownloadItem.Place(list: name, line: entry.line)
        for (line, text) in entry.options {
            try located(name, line) { () throws(ToolError) in try read(option: text, into: &item) }
        }
        return item
    }

    private static func addresses(of text: String) -> [String] {
        text.split(separator: "\t").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
    }

    /// Runs a closure, and prefixes its errors with the file name and line.
    static func located<Value>(
        _ name: String, _ line: Int, _ body: () throws(ToolError) -> Value
    ) throws(ToolError) -> Value {
        do throws(ToolError) {
            return try body()
        } catch {
            // If the file is not a list, a line may contain the whole file.
            let text = error.text.count > 400 ? error.text.prefix(400) + "…" : error.text[...]
            throw ToolError(text: "\(name):\(line): \(text)", status: error.status)
        }
    }

    /// Returns the name and the value of an option.
    static func option(_ text: String) throws(ToolError) -> (name: String, value: String) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts[0].trimmingCharacters(in: .whitespaces)
        guard parts.count == 2 else { throw .usage("the option '\(Printable.line(name))' has no value: use NAME=VALUE") }
        return (name, parts[1].trimmingCharacters(in: .whitespaces))
    }

    private static func read(option: String, into item: inout DownloadItem) throws(ToolError) {
        let (name, value) = try self.option(option)
        switch name {
        case "out":
            guard let path = RelativePath.normalized(value) else {
                throw .usage("invalid out '\(Printable.line(value))': it must be a path below the directory")
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
            throw .usage("unknown option '\(Printable.line(name))'; the options are out, dir, checksum, header and split")
        }
    }

    /// Parses a checksum of the form `sha-256=HEX`.
    static func checksum(_ text: String) throws(ToolError) -> Checksum {
        do throws(ChecksumError) {
            return try Checksum(parsing: text)
        } catch {
            throw .usage("invalid checksum '\(Printable.line(text))': \(Printable.line(error.description))")
        }
    }
}
