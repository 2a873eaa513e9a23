import ConvoyDownloads
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// An ext4 file system in an image, copied at various times after a process has succeeded, to simulate a power failure.
///
/// `CONVOY_IMAGE_COPIES` sets the number of copies for each test.
@Suite(
    .serialized, .enabled(if: DiskImage.copies > 0, "takes minutes: Tests/long downloads"),
    .enabled(if: DiskImage.canBeMounted, "this user cannot mount an ext4 image (mkfs.ext4, mount -o loop)"))
struct DiskImageTests {
    private let server: TestServer
    private let size = 8_000_000
    /// The number of copies after one process, spread over the time in which the system writes back automatically.
    private let copiesOfProcess = 20
    private let seconds = 8.0

    init() throws {
        server = try TestServer()
        server.servePattern(count: size, at: "/file", etag: "\"1\"")
        server.servePattern(count: 300_000, at: "/file/*", etag: "\"1\"")
        server.route("POST", "/post") { _ in .text("thanks") }
    }

    /// Calls a closure with the root of each copy.
    private func copies(
        _ run: (_ image: DiskImage) throws -> Void, _ check: (_ copy: URL, _ note: String) throws -> Void
    ) async throws {
        let count = DiskImage.copies
        for first in stride(from: 0, to: count, by: copiesOfProcess) {
            let directory = try TemporaryDirectory(prefix: "convoy-image")
            let image = try #require(try DiskImage(in: directory, "disk"))
            try run(image)
            let end = MonotonicClock.now
            for index in 0..<min(copiesOfProcess, count - first) {
                let moment = seconds * Double(index) / Double(copiesOfProcess)
                await withCheckedContinuation { continuation in
                    let passed = Double(MonotonicClock.now - end) / 1e9
                    DispatchQueue.global().asyncAfter(deadline: .now() + max(0, moment - passed)) { continuation.resume() }
                }
                let copy = try #require(try DiskImage(in: directory, "copy", of: image))
                try check(copy.url, "\(moment) s after the end, run \(first)")
            }
        }
    }

    @Test func `a copy of the disk after a download contains the old file or the complete new one`() async throws {
        let old = Data("the old file".utf8)
        var (olds, news) = (0, 0)
        try await copies { image in
            let file = image.url.appendingPathComponent("file")
            try old.write(to: file)
            sync()
            let said = try DownloadProgram.run(server.url("/file"), file, ["--existing", "replace"])
            #expect(said == ["downloaded"])
        } _: { copy, note in
            let file = copy.appendingPathComponent("file")
            if try Data(contentsOf: file) == old { return olds += 1 }
            news += 1
            let isWhole = try DownloadProgram.isPattern(file, count: size)
            #expect(isWhole, "\(note)")
        }
        print("copies of a disk: \(olds) with the old file, \(news) with the new one")
    }

    @Test func `the files of finished queue entries survive a power failure`() async throws {
        let count = 20
        var found = 0
        try await copies { image in
            let home = image.url.appendingPathComponent("queue").path
            let result = try ProcessRunner.run(
                try DownloadProgram.path(), ["queue", home, "work", server.url("/").absoluteString, "\(count)"])
            #expect(result.status == 0 && result.text.contains("done \(count) finished"), "\(result.text)")
        } _: { copy, note in
            for number in stride(from: 0, to: count, by: 2) {
                let file = copy.appendingPathComponent("\(number)")
                let isWhole = try DownloadProgram.isPattern(file, count: 300_000)
                #expect(isWhole, "\(number), \(note)")
                found += 1
            }
        }
        print("copies of a disk: \(found) files of queues")
    }
}

/// A mounted ext4 file system in a file.
private final class DiskImage {
    let url: URL
    private let image: URL

    /// The number of copies for each test.
    static let copies = ProcessInfo.processInfo.environment["CONVOY_IMAGE_COPIES"].flatMap { Int($0) } ?? 0
    /// Whether the system can mount an image. Not tried if no copies are made.
    static let canBeMounted =
        copies == 0 || (try? TemporaryDirectory(prefix: "convoy-image")).flatMap { try? DiskImage(in: $0, "trial") } != nil

    /// Creates and mounts an image; nil if the system does not permit it.
    ///
    /// - Parameter other: The image to copy in its current state on the disk; nil for an empty one.
    init?(in directory: TemporaryDirectory, _ name: String, of other: DiskImage? = nil) throws {
        (image, url) = (directory.file(name + ".img"), directory.file(name))
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        let script =
            other.map { "cp --sparse=always '\($0.image.path)' '\(image.path)'" }
            ?? "truncate -s 64M '\(image.path)' && mkfs.ext4 -q '\(image.path)'"
        let result = try ProcessRunner.run("sh", ["-c", "\(script) && mount -o loop '\(image.path)' '\(url.path)'"])
        guard result.status == 0 else {
            print("no disk image: \(result.errorText)")
            return nil
        }
    }

    deinit { _ = try? ProcessRunner.run("umount", [url.path]) }
}
