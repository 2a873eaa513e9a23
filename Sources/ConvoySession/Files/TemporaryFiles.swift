import ConvoySupport
import Foundation
import Glibc

/// The directory in which files are while they are downloaded, and until they are moved.
///
/// Nobody else may write to it: its files get names that cannot be guessed, but resume data tells them. What killed
/// processes have left is bounded in age and size.
struct TemporaryFiles: Sendable {
    let directory: URL

    init(_ directory: URL) { self.directory = directory }

    /// A file with a new name.
    func newFile() -> URL {
        let digits = (0..<4).map { _ in
            let number = String(UInt32.random(in: 0 ... .max), radix: 16)
            return String(repeating: "0", count: 8 - number.utf8.count) + number
        }
        return file(digits.joined())
    }

    func file(_ name: String) -> URL { directory.appendingPathComponent(name, isDirectory: false) }

    /// Makes the directory, if it is not there, and checks that it is the user's own.
    ///
    /// - Throws: ``SessionError``.
    func prepare() throws {
        do throws(PrivateFile.Failure) {
            try PrivateFile.makeDirectory(directory.path)
        } catch {
            guard case .system(let cause) = error else { throw SessionError.unsafeDirectory(directory) }
            throw SessionError.unusableDirectory(directory, code: cause.code)
        }
        guard Self.tidied.withLock({ $0.insert(directory.path).inserted }) else { return }
        BlockingWorkers.shared.perform { removeLeftovers() }
    }

    // MARK: What killed processes have left

    /// The directories that this process has looked through.
    private static let tidied = Locked<Set<String>>([])

    /// How many seconds a file is kept that no download goes on with, and how many bytes of all together.
    static let (longestAge, mostBytes): (TimeInterval, Int64) = (7 * 86400, 4 << 30)
    /// The seconds in which a file may still get its place, or a resume.
    private static let shortestAge: TimeInterval = 3600

    /// Removes files that are older than a week, and of the others the oldest beyond 4 GiB. A file that a download has open
    /// stays. Blocks.
    func removeLeftovers(now: Date = Date()) {
        struct Leftover {
            var names: [String] = []
            var bytes: Int64 = 0
            var changed = Date.distantPast
        }
        var found: [Substring: Leftover] = [:]
        for name in (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? [] {
            // The names that are given here: 32 digits, and what a download adds to them.
            let stem = name.prefix { $0 != "." }
            var facts = stat()
            guard stem.utf8.count == 32, stem.allSatisfy(\.isHexDigit), lstat(file(name).path, &facts) == 0,
                facts.st_mode & S_IFMT == S_IFREG
            else { continue }
            found[stem, default: Leftover()].names.append(name)
            found[stem, default: Leftover()].bytes += Int64(facts.st_blocks) * 512
            let changed = Date(timeIntervalSince1970: TimeInterval(facts.st_mtim.tv_sec))
            found[stem, default: Leftover()].changed = max(changed, found[stem]?.changed ?? changed)
        }
        var bytes: Int64 = 0
        for leftover in found.values.sorted(by: { $0.changed > $1.changed }) {
            bytes += leftover.bytes
            let age = now.timeIntervalSince(leftover.changed)
            guard age > Self.longestAge || bytes > Self.mostBytes && age > Self.shortestAge,
                !leftover.names.contains(where: isInUse)
            else { continue }
            for name in leftover.names { try? FileManager.default.removeItem(at: file(name)) }
        }
    }

    private func isInUse(_ name: String) -> Bool {
        let calls = FileCalls()
        let descriptor = calls.open(file(name).path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0)
        guard descriptor >= 0 else { return false }
        defer { _ = calls.close(descriptor) }
        return calls.lock(descriptor) != 0
    }

    /// The directory of a user for all sessions that have no other.
    static var standard: URL {
        URL(fileURLWithPath: NSTemporaryDirectory(), isDirectory: true)
            .appendingPathComponent("convoy-downloads-\(geteuid())", isDirectory: true)
    }
}
