import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// Downloads a file like an application.
enum DownloadCommands {
    struct Usage: Error {}

    private static func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    static func run(_ arguments: [String]) throws {
        guard arguments.count >= 2, arguments.count.isMultiple(of: 2), let url = URL(string: arguments[0]) else {
            throw Usage()
        }
        let file = URL(fileURLWithPath: arguments[1])
        var options: [String: String] = [:]
        for index in stride(from: 2, to: arguments.count, by: 2) { options[arguments[index]] = arguments[index + 1] }
        let segments = options["--segments"].flatMap { Int($0) } ?? 1
        var calls = FileCalls()
        if let path = options["--counter"] {
            guard let counter = ByteCounter(path: path) else { throw Usage() }
            counter.count(&calls)
        }
        let existing: ExistingFilePolicy = options["--existing"] == "replace" ? .replace : .fail
        guard let bytes = options["--limit"].flatMap({ rlim_t($0) }) else {
            return say(outcome(of: url, file, segments, existing, calls))
        }
        let limit = Limit(RLIMIT_FSIZE)
        signal(SIGXFSZ, SIG_IGN)
        limit.set(bytes)
        say(outcome(of: url, file, segments, existing, calls))
        limit.restore()
        say(outcome(of: url, file, segments, existing, calls))
    }

    private static func outcome(
        of url: URL, _ file: URL, _ segments: Int, _ existing: ExistingFilePolicy, _ calls: FileCalls
    ) -> String {
        let operation = DownloadOperation(request: URLRequest(url: url), destination: file)
        operation.completionQueue = .global()
        operation.segmentCount = segments
        operation.existingFilePolicy = existing
        operation.fileCalls = calls
        let done = DispatchSemaphore(value: 0)
        operation.setCompletionHandler(success: { _, _ in done.signal() }, failure: { _, _ in done.signal() })
        let queue = RequestOperationQueue()
        queue.addOperation(operation)
        done.wait()
        return text(of: operation.error)
    }

    private static func text(of error: (any Error)?) -> String {
        switch error {
        case nil: "downloaded"
        case let error as DownloadError:
            switch error.reason {
            case .inUse: "in use"
            case .fileExists: "file exists"
            case .notEnoughSpace: "not enough space"
            default: "\(error)"
            }
        case let error as URLError:
            "URLError \(error.errorCode) \((error.userInfo[NSUnderlyingErrorKey] as? POSIXError)?.errorCode ?? 0)"
        case let error?: "\(error)"
        }
    }
}

/// Counts the bytes that consecutive processes write to partial files, and how many of them a journal on the disk
/// claims. The numbers are in a mapped file, so that they stay correct when a process is killed.
private final class ByteCounter: @unchecked Sendable {
    private let written: UnsafeMutablePointer<UInt64>
    private let claimed: UnsafeMutablePointer<UInt64>

    private struct Files {
        var partials: Set<Int32> = []
        /// The number of bytes written before the last successful synchronization of a partial file began.
        var synchronized: UInt64 = 0
    }
    private let files = Locked(Files())

    init?(path: String) {
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { return nil }
        defer { close(file) }
        guard ftruncate(file, 16) == 0, let memory = mmap(nil, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0),
            memory != MAP_FAILED
        else { return nil }
        written = memory.bindMemory(to: UInt64.self, capacity: 2)
        claimed = written + 1
    }

    func count(_ calls: inout FileCalls) {
        let real = calls
        calls.open = { [self] path, flags, mode in
            let descriptor = real.open(path, flags, mode)
            if descriptor >= 0, path.hasSuffix(".convoypart") { files.withLock { _ = $0.partials.insert(descriptor) } }
            return descriptor
        }
        calls.duplicate = { [self] descriptor in
            let duplicate = real.duplicate(descriptor)
            files.withLock { if duplicate >= 0, $0.partials.contains(descriptor) { $0.partials.insert(duplicate) } }
            return duplicate
        }
        calls.writeAt = { [self] descriptor, bytes, offset in
            let count = real.writeAt(descriptor, bytes, offset)
            files.withLock { if count > 0, $0.partials.contains(descriptor) { written.pointee += UInt64(count) } }
            return count
        }
        calls.synchronizeData = { [self] descriptor in
            let (isPartial, before) = files.withLock { ($0.partials.contains(descriptor), written.pointee) }
            let result = real.synchronizeData(descriptor)
            guard result == 0 else { return result }
            files.withLock { files in
                // The journal is synchronized after the partial file.
                if isPartial { files.synchronized = before } else { claimed.pointee = files.synchronized }
            }
            return result
        }
        calls.close = { [self] descriptor in
            files.withLock { _ = $0.partials.remove(descriptor) }
            return real.close(descriptor)
        }
    }
}
