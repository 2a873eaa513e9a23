import Foundation

@testable import ConvoyTool
@testable import FuzzProgram

extension FuzzSubject {
    /// The tool's lists of downloads. A program cannot contain another one: libFuzzer does not reach them.
    static let list = FuzzSubject(
        "list",
        seeds: [
            "# files\nhttps://example.com/a.iso\n  out=b/c.iso\n  checksum=sha-256=00\n  split=4\nhttps://example.com/d\n",
            "\u{FEFF}https://example.com/a\thttps://example.org/a\r\n\tdir=/tmp\n\theader=X: y\n", "  out=a\n", "ftp://a\n",
        ]
    ) { bytes in
        let entries = try ShortFile.with(bytes) { path in try readList(ListReader(path)) }
        try expect(entries <= bytes.count { $0 == 0x0A } + 1, "more files than lines")
    }

    /// Reads the files of a list, and counts them.
    private static func readList(_ reader: ListReader) throws -> Int {
        var entries = 0
        while true {
            do {
                guard case .entry(let entry) = try reader.next() else { return entries }
                entries += 1
                let item = try DownloadList.item(entry, "list")
                try expect(!item.urls.isEmpty, "a file without a URL")
                let parts = item.name?.split(separator: "/", omittingEmptySubsequences: false) ?? []
                try expect(!parts.contains { ["", ".", ".."].contains($0) }, "a path that leads elsewhere")
            } catch is ToolError {
                // The next call goes on behind the line.
            }
        }
    }
}
