import CEpoll
import ConvoySupport
import Foundation

/// A call that changes a disk, or waits until it has changed.
enum DiskCall: Sendable, Equatable {
    case create(path: String, file: Int)
    case write(file: Int, offset: Int, bytes: [UInt8])
    case truncate(file: Int, length: Int)
    case rename(from: String, to: String)
    case unlink(path: String)
    case synchronize(file: Int)
    case synchronizeDirectory
}

/// Files, by number, and their names in one directory.
struct DiskContents: Sendable {
    var files: [Int: [UInt8]] = [:]
    var names: [String: Int] = [:]

    func contents(_ name: String) -> [UInt8]? { names[name].flatMap { files[$0] } }

    init() {}

    /// Reads the contents of a directory.
    ///
    /// - Parameter other: The contents from which the directory was created, whose files keep their numbers.
    init(of folder: URL, like other: DiskContents = DiskContents()) throws {
        var next = other.nextFile
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            let file = other.names[name] ?? next
            next = max(next, file + 1)
            names[name] = file
            files[file] = Array(try Data(contentsOf: folder.appendingPathComponent(name)))
        }
    }

    /// An unused file number.
    var nextFile: Int { (files.keys.max() ?? -1) + 1 }

    /// Creates a directory with these contents.
    func write(to folder: URL) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for (name, file) in names { try Data(files[file] ?? []).write(to: folder.appendingPathComponent(name)) }
    }

    /// Returns whether the same files exist under the same names. Unnamed files are ignored.
    func isSame(as other: DiskContents) -> Bool {
        Set(names.keys) == Set(other.names.keys)
            && names.keys.allSatisfy { ConvoyDownloadsTests.isSame(contents($0), other.contents($0)) }
    }

    func hash(into hasher: inout Hasher) {
        for name in names.keys.sorted() {
            hasher.combine(name)
            hasher.combine(names[name])
            contents(name)?.withUnsafeBytes { hasher.combine(bytes: $0) }
        }
    }

    mutating func apply(_ call: DiskCall) {
        switch call {
        case .create(let path, let file):
            names[path] = file
            if files[file] == nil { files[file] = [] }
        case .write(let file, let offset, let bytes):
            files[file, default: []].grow(to: offset + bytes.count)
            files[file]?.withUnsafeMutableBytes { contents in
                bytes.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: contents[offset...]).copyMemory(from: $0) }
            }
        case .truncate(let file, let length):
            files[file, default: []].grow(to: length)
            let surplus = (files[file] ?? []).count - length
            files[file]?.removeLast(surplus)
        case .rename(let from, let to):
            guard let file = names.removeValue(forKey: from) else { return }
            names[to] = file
        case .unlink(let path): names[path] = nil
        case .synchronize, .synchronizeDirectory: break
        }
    }
}

/// Compares bytes quickly, even in unoptimized builds.
func isSame(_ one: [UInt8]?, _ other: [UInt8]?, in range: Range<Int>? = nil) -> Bool {
    guard let one, let other else { return one == nil && other == nil }
    guard range != nil || one.count == other.count else { return false }
    let range = range ?? 0..<one.count
    guard range.upperBound <= min(one.count, other.count) else { return false }
    return one.withUnsafeBytes { one in
        other.withUnsafeBytes { other in
            guard let one = one.baseAddress, let other = other.baseAddress else { return range.isEmpty }
            return memcmp(one + range.lowerBound, other + range.lowerBound, range.count) == 0
        }
    }
}

extension FileCalls {
    /// Calls that do not wait for a disk, for tests without power failures.
    static var withoutWaiting: FileCalls {
        var calls = FileCalls()
        calls.synchronize = { _ in 0 }
        calls.synchronizeData = { _ in 0 }
        return calls
    }

    /// Returns calls that do not wait for a disk, for a directory created from contents, whose files keep their
    /// numbers.
    static func withoutWaiting(_ contents: DiskContents) -> FileCalls {
        var calls = withoutWaiting
        let real = calls
        let files = Locked<[Int32: Int]>([:])
        calls.open = { path, flags, mode in
            files.withLock { files in
                let descriptor = real.open(path, flags, mode)
                if descriptor >= 0 { files[descriptor] = contents.names[(path as NSString).lastPathComponent] ?? -1 }
                return descriptor
            }
        }
        calls.mark = { descriptor in files.withLock { "\($0[descriptor] ?? -1)" } }
        return calls
    }
}

extension [UInt8] {
    fileprivate mutating func grow(to length: Int) {
        guard count < length else { return }
        let old = self
        self = [UInt8](unsafeUninitializedCapacity: length) { buffer, filled in
            guard let start = buffer.baseAddress else { return }
            memset(start + old.count, 0, length - old.count)
            old.withUnsafeBytes { if let bytes = $0.baseAddress { memcpy(start, bytes, old.count) } }
            filled = length
        }
    }
}

/// A recorder of the changes to one directory. It makes them one after another, so that their order is known.
final class DiskRecorder: Sendable {
    private struct State {
        var calls: [DiskCall] = []
        var names: [String: Int]
        var files: [Int32: Int] = [:]
        var directories: Set<Int32> = []
        var nextFile: Int
    }

    private let state: Locked<State>
    /// The initial contents, which are on the disk.
    let before: DiskContents

    init(_ folder: URL, like contents: DiskContents) throws {
        before = try DiskContents(of: folder, like: contents)
        state = Locked(State(names: before.names, nextFile: max(before.nextFile, contents.nextFile)))
    }

    var recorded: [DiskCall] { state.withLock { $0.calls } }

    private static func name(_ path: String) -> String { (path as NSString).lastPathComponent }

    var calls: FileCalls {
        let real = FileCalls.withoutWaiting
        var calls = real
        calls.open = { [self] path, flags, mode in
            state.withLock { state in
                let descriptor = real.open(path, flags, mode)
                guard descriptor >= 0 else { return descriptor }
                let name = Self.name(path)
                if flags & cepoll_unnamed_file == cepoll_unnamed_file {
                    state.files[descriptor] = state.nextFile
                    state.nextFile += 1
                } else if flags & O_DIRECTORY != 0 {
                    state.directories.insert(descriptor)
                } else if let file = state.names[name] {
                    state.files[descriptor] = file
                } else {
                    (state.names[name], state.files[descriptor]) = (state.nextFile, state.nextFile)
                    state.calls.append(.create(path: name, file: state.nextFile))
                    state.nextFile += 1
                }
                return descriptor
            }
        }
        calls.duplicate = { [self] descriptor in
            state.withLock { state in
                let copy = real.duplicate(descriptor)
                if copy >= 0 { state.files[copy] = state.files[descriptor] }
                return copy
            }
        }
        calls.close = { [self] descriptor in
            state.withLock { state in
                state.files[descriptor] = nil
                state.directories.remove(descriptor)
                return real.close(descriptor)
            }
        }
        calls.writeAt = { [self] descriptor, bytes, offset in
            state.withLock { state in
                let count = real.writeAt(descriptor, bytes, offset)
                if count > 0, let file = state.files[descriptor] {
                    state.calls.append(.write(file: file, offset: Int(offset), bytes: Array(bytes.prefix(count))))
                }
                return count
            }
        }
        calls.truncate = { [self] descriptor, length in
            state.withLock { state in
                let result = real.truncate(descriptor, length)
                if result == 0, let file = state.files[descriptor] {
                    state.calls.append(.truncate(file: file, length: Int(length)))
                }
                return result
            }
        }
        calls.mark = { [self] descriptor in state.withLock { "\($0.files[descriptor] ?? -1)" } }
        recordSynchronization(of: &calls, real)
        recordNames(of: &calls, real)
        return calls
    }

    private func recordSynchronization(of calls: inout FileCalls, _ real: FileCalls) {
        func synchronize(
            _ call: @escaping @Sendable (Int32) -> Int32
        ) -> @Sendable (_ descriptor: Int32) -> Int32 {
            { [self] descriptor in
                state.withLock { state in
                    let result = call(descriptor)
                    guard result == 0 else { return result }
                    if let file = state.files[descriptor] { state.calls.append(.synchronize(file: file)) }
                    if state.directories.contains(descriptor) { state.calls.append(.synchronizeDirectory) }
                    return result
                }
            }
        }
        calls.synchronize = synchronize(real.synchronize)
        calls.synchronizeData = synchronize(real.synchronizeData)
    }

    private func recordNames(of calls: inout FileCalls, _ real: FileCalls) {
        func rename(
            _ call: @escaping @Sendable (String, String) -> Int32
        ) -> @Sendable (_ path: String, _ newPath: String) -> Int32 {
            { [self] path, newPath in
                state.withLock { state in
                    let result = call(path, newPath)
                    guard result == 0 else { return result }
                    let (from, to) = (Self.name(path), Self.name(newPath))
                    state.names[to] = state.names.removeValue(forKey: from)
                    state.calls.append(.rename(from: from, to: to))
                    return result
                }
            }
        }
        calls.rename = rename(real.rename)
        calls.renameWithoutReplacing = rename(real.renameWithoutReplacing)
        calls.name = { [self] descriptor, path in
            state.withLock { state in
                let result = real.name(descriptor, path)
                guard result == 0, let file = state.files[descriptor] else { return result }
                state.names[Self.name(path)] = file
                state.calls.append(.create(path: Self.name(path), file: file))
                return result
            }
        }
        calls.unlink = { [self] path in
            state.withLock { state in
                let result = real.unlink(path)
                guard result == 0 else { return result }
                state.names[Self.name(path)] = nil
                state.calls.append(.unlink(path: Self.name(path)))
                return result
            }
        }
    }
}
