import Convoy
import ConvoySupport
import Foundation

/// Reads lists of downloads, in the format of aria2's input files, and Metalinks.
///
/// A line has a URL, or several of the same file with tabs between them. Lines below it that begin with a space or a tab
/// are options of that file.
enum DownloadList {
    /// The largest list that is read, in bytes.
    static let maximumLength = 256 << 20

    /// The files of a list.
    ///
    /// - Parameter path: of the list, or of a Metalink; `-` for standard input.
    /// - Throws: a usage error with the line.
    static func items(at path: String) throws(ToolError) -> [DownloadItem] {
        let name = path == "-" ? "standard input" : Printable.line(path)
        let data = try InputFile.contents(of: path, called: "--input-file \(name)", limit: maximumLength)
        let first = data.first { !" \t\r\n\u{FEFF}".utf8.contains($0) }
        return first == UInt8(ascii: "<") ? try metalink(data, name) : try list(data, name)
    }

    // MARK: Metalinks

    private static func metalink(_ data: Data, _ name: String) throws(ToolError) -> [DownloadItem] {
        let metalink: Metalink
        do throws(MetalinkError) {
            metalink = try Metalink(parsing: data)
        } catch {
            throw .usage("\(name): \(Printable.line(error.description))")
        }
        return try metalink.files.map { file throws(ToolError) in
            guard !file.mirrors.isEmpty else {
                throw .usage("\(name): there is no URL of http or https for \(Printable.line(file.name))")
            }
            var item = DownloadItem(urls: file.mirrors.map(\.url))
            item.name = file.pathComponents.joined(separator: "/")
            item.metalink = file
            return item
        }
    }

    // MARK: Lists

    static func list(_ data: Data, _ name: String) throws(ToolError) -> [DownloadItem] {
        var items: [DownloadItem] = []
        var bytes = data[...]
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes = bytes.dropFirst(3) }
        for (index, line) in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            let place = "\(name):\(index + 1)"
            guard let text = String(validating: line, as: UTF8.self) else { throw .usage("\(place): it is not UTF-8") }
            let words = text.trimmingCharacters(in: .whitespacesAndNewlines)
            guard !words.isEmpty, !words.hasPrefix("#") else { continue }
            do throws(ToolError) {
                if text.utf8.first == UInt8(ascii: " ") || text.utf8.first == UInt8(ascii: "\t") {
                    guard !items.isEmpty else { throw .usage("an option, but no URL before it") }
                    try read(option: words, into: &items[items.count - 1])
                } else {
                    items.append(DownloadItem(urls: try urls(words)))
                }
            } catch {
                // A line may be the whole of a file that is no list.
                let text = error.text.count > 400 ? error.text.prefix(400) + "…" : error.text[...]
                throw .usage("\(place): \(text)")
            }
        }
        return items
    }

    private static func urls(_ line: String) throws(ToolError) -> [URL] {
        let texts = line.split(separator: "\t").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
        return try texts.map { text throws(ToolError) in try DownloadURL.parse(text) }
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
