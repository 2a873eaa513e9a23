import ConvoyCache
import ConvoySupport
import ConvoyTestSupport
import Foundation

/// Commands that fill and read a cache like an engine.
enum CacheCommands {
    struct Usage: Error {}

    private static func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    static func run(_ arguments: [String]) throws {
        guard arguments.count >= 2 else { throw Usage() }
        let directory = arguments[0]
        let numbers = arguments.dropFirst(2).compactMap { Double($0) }
        switch (arguments[1], numbers.count) {
        case ("churn", 2...3):
            try churn(
                open(directory), seed: UInt64(numbers[0]), seconds: numbers[1],
                threads: numbers.count > 2 ? Int(numbers[2]) : 1)
        case ("put", 2):
            let cache = try open(directory)
            var churn = CacheChurn(seed: UInt64.random(in: .min ... .max))
            for key in Int(numbers[0])..<Int(numbers[0] + numbers[1]) { churn.store(cache, key: key, length: length(key)) }
            try cache.flush()
        case ("remove", 2):
            let cache = try open(directory)
            for key in Int(numbers[0])..<Int(numbers[0] + numbers[1]) { CacheChurn.remove(cache, key: key) }
            try cache.flush()
        case ("full", 0): try full(open(directory))
        case ("descriptors", 0): try descriptors(open(directory))
        case ("locked", 0): try locked(directory)
        default: throw Usage()
        }
    }

    private static func open(_ directory: String) throws -> HTTPCache {
        try HTTPCache(directory: URL(fileURLWithPath: directory), diskCapacity: 64 << 20, memoryCapacity: 1 << 20)
    }

    private static func length(_ key: Int) -> Int { key % 2 == 0 ? 10_000 : 100_000 }

    private static func churn(_ cache: HTTPCache, seed: UInt64, seconds: Double, threads: Int) throws {
        let reports = Locked<[CacheChurn.Report]>([])
        let group = DispatchGroup()
        for thread in 0..<threads {
            group.enter()
            Thread.detachNewThread {
                let report = CacheChurn(seed: seed &+ UInt64(thread) << 32).run(cache, seconds: seconds)
                reports.withLock { $0.append(report) }
                group.leave()
            }
        }
        group.wait()
        // Another process may briefly hold the lock, which `flush` reports as an error.
        var told: String?
        try eventually(timeout: 60, "a cache that can be flushed") {
            do throws(HTTPCacheError) {
                try cache.flush()
                return true
            } catch {
                // Print each error once, to standard error rather than with the results.
                let text = "\(error)"
                if text != told { FileHandle.standardError.write(Data("\(text)\n".utf8)) }
                told = text
                return false
            }
        }
        let all = reports.withLock { $0 }
        say("\(all.reduce(0) { $0 + $1.reads }) read, \(all.reduce(0) { $0 + $1.torn }) torn")
    }

    /// Simulates a full disk for this process by limiting the size of its files.
    private static func full(_ cache: HTTPCache) throws {
        let limit = Limit(RLIMIT_FSIZE)
        signal(SIGXFSZ, SIG_IGN)
        var churn = CacheChurn(seed: 1)
        churn.store(cache, key: 0, length: 100)
        try cache.flush()
        for size in [rlim_t(1), 20_000, 60_000] {
            limit.set(size)
            for key in 1..<20 { churn.store(cache, key: key, length: length(key)) }
            do { try cache.flush() } catch { say("\(error)") }
            limit.restore()
            say("\(churn.readAll(cache, keys: 0..<20).torn) torn")
        }
        for key in 0..<20 { churn.store(cache, key: key, length: length(key)) }
        try? cache.flush()
        let report = churn.readAll(cache, keys: 0..<20)
        say("\(report.reads) found, \(report.torn) torn")
    }

    private static func descriptors(_ cache: HTTPCache) throws {
        var churn = CacheChurn(seed: 2)
        for key in 0..<20 { churn.store(cache, key: key, length: length(key)) }
        try cache.flush()
        let limit = Limit(RLIMIT_NOFILE)
        // Use all descriptors but the lowest free one.
        let free = dup(0)
        close(free)
        limit.set(rlim_t(free))
        let during = churn.readAll(cache, keys: 0..<20)
        for key in 20..<40 { churn.store(cache, key: key, length: length(key)) }
        let stored = churn.readAll(cache, keys: 20..<40)
        limit.restore()
        let after = churn.readAll(cache, keys: 0..<20)
        for key in 20..<40 { churn.store(cache, key: key, length: length(key)) }
        let again = churn.readAll(cache, keys: 20..<40)
        say("\(during.torn + stored.torn + after.torn + again.torn) torn")
        say("\(during.reads < 20 && stored.reads < 20) refused")
        say("\(after.reads) kept, \(again.reads) stored")
    }

    private static func locked(_ directory: String) throws {
        // Root may write to any directory, so become another user.
        if getuid() == 0 { guard setgid(65534) == 0, setuid(65534) == 0 else { throw Usage() } }
        var churn = CacheChurn(seed: 3)
        do {
            let cache = try open(directory)
            for key in 0..<10 { churn.store(cache, key: key, length: length(key)) }
            try cache.flush()
            for path in ["\(directory)/bodies", directory] { chmod(path, 0o500) }
            for key in 10..<20 { churn.store(cache, key: key, length: length(key)) }
            try? cache.flush()
            let report = churn.readAll(cache, keys: 0..<20)
            say("\(report.torn) torn, \(report.reads >= 10) kept")
        }
        for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "index.sqlite.lock"] {
            chmod("\(directory)/\(name)", 0o400)
        }
        do {
            _ = try open(directory)
            say("opened")
        } catch let error as HTTPCacheError {
            guard case .cannotOpen = error else { throw error }
            say("refused")
        }
    }
}
