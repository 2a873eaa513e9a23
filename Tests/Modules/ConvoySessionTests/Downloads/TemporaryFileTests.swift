import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySession

/// Files that killed processes have left in the download directory of a session.
@Suite struct TemporaryFileTests {
    private let directory: TemporaryDirectory
    private let files: TemporaryFiles

    init() throws {
        directory = try TemporaryDirectory(prefix: "convoy-temporary")
        files = TemporaryFiles(directory.url)
    }

    private var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: directory.url.path)) ?? []).sorted()
    }

    /// Creates a file that was modified the given number of seconds ago.
    private func leave(_ name: String, age: TimeInterval) throws {
        let file = try directory.write(Data("part".utf8), to: name)
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSinceNow: -age)], ofItemAtPath: file.path)
    }

    @Test func `only files older than a week are removed`() throws {
        let old = files.newFile().lastPathComponent, new = files.newFile().lastPathComponent
        let week: TimeInterval = 7 * 86400
        for suffix in ["", ".convoypart", ".convoyjournal"] {
            try leave(old + suffix, age: week + 100)
            try leave(new + suffix, age: week - 1000)
        }
        try leave("mine.convoypart", age: 2 * week)
        files.removeLeftovers()
        #expect(names == ["mine.convoypart", new, new + ".convoyjournal", new + ".convoypart"].sorted())
    }

    @Test func `a file that a download has open is kept`() throws {
        let name = files.newFile().lastPathComponent
        try leave(name + ".convoypart", age: 30 * 86400)
        let descriptor = open(files.file(name + ".convoypart").path, O_RDWR | O_CLOEXEC)
        defer { close(descriptor) }
        #expect(flock(descriptor, LOCK_EX) == 0)
        files.removeLeftovers()
        #expect(names == [name + ".convoypart"])
        #expect(flock(descriptor, LOCK_UN) == 0)
        files.removeLeftovers()
        #expect(names.isEmpty)
    }
}
