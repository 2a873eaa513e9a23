import Foundation

@testable import ConvoyTool
@testable import FuzzProgram

/// The parsers of the tool. libFuzzer does not reach them, because its program cannot contain another program.
extension FuzzSubject {
    static let ofTool = [list, configuration]

    /// The values in a configuration file.
    private static let configuration = FuzzSubject(
        "configuration",
        seeds: [
            "{\"jobs\": 4, \"header\": [\"A: b\"], \"directory\": \"~/x\", \"quiet\": true}",
            "{ // comment\n \"proxy\": null, \"max-time\": 1e999, \"\\ud800\": [] }",
        ]
    ) { bytes in
        let values = try Configuration.values(in: Data(bytes), home: "/home/u")
        try expect(values.keys.allSatisfy { name in OptionTable.all.contains { $0.name == name } }, "an unknown option")
    }

    private static let list = FuzzSubject(
        "list",
        seeds: [
            "# files\nhttps://example.com/a.iso\n  out=b/c.iso\n  checksum=sha-256=00\n  split=4\nhttps://example.com/d\n",
            "\u{FEFF}https://example.com/a\thttps://example.org/a\r\n\tdir=/tmp\n\theader=X: y\n", "  out=a\n", "ftp://a\n",
        ]
    ) { bytes in
        let entries = try ShortFile.with(bytes) { path in try readList(ListReader(path)) }
        try expect(entries <= bytes.count { $0 == 0x0A } + 1, "more files than lines")
    }

    /// Reads the entries of a list and counts them.
    private static func readList(_ reader: ListReader) throws -> Int {
        var entries = 0
        while true {
            do {
                guard case .entry(let entry) = try reader.next() else { return entries }
                entries += 1
                let item = try DownloadList.item(entry, "list")
                try expect(!item.urls.isEmpty, "a file without a URL")
                let parts = item.name?.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) ?? []
                try expect(!parts.contains { ["", ".", ".."].contains(text($0)) }, "a path that leaves the directory")
            } catch is ToolError {
                // The next call to the reader continues after the invalid line.
            }
        }
    }
}
