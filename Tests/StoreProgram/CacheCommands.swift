import ConvoyCache
import ConvoyTestSupport
import Foundation

/// Fills a cache, and reads it, as an engine does.
enum CacheCommands {
    struct Usage: Error {}

    private static func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    static func run(_ arguments: [String]) throws {
        guard arguments.count >= 2 else { throw Usage() }
        let cache = try HTTPCache(
            directory: URL(fileURLWithPath: arguments[0]), diskCapacity: 64 << 20, memoryCapacity: 1 << 20)
        switch arguments[1] {
        case "churn":
            guard arguments.count == 4, let seed = UInt64(arguments[2]), let seconds = Double(arguments[3])
            else { throw Usage() }
            let report = CacheChurn(seed: seed).run(cache, seconds: seconds)
            try cache.flush()
            say("\(report.reads) read, \(report.torn) torn")
        case "full":
            var before = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &before)
            signal(SIGXFSZ, SIG_IGN)
            var churn = CacheChurn(seed: 1)
            churn.store(cache, key: 0, length: 100)
            try cache.flush()
            for size in [rlim_t(1), 20_000, 60_000] {
                // A file of this process must not grow, which is a full disk for it alone.
                var small = rlimit(rlim_cur: size, rlim_max: before.rlim_max)
                setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &small)
                for key in 1..<20 { churn.store(cache, key: key, length: key % 2 == 0 ? 10_000 : 100_000) }
                do { try cache.flush() } catch { say("\(error)") }
                setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &before)
                say("\(churn.readAll(cache, keys: 0..<20).torn) torn")
            }
            for key in 0..<20 { churn.store(cache, key: key, length: key % 2 == 0 ? 10_000 : 100_000) }
            try? cache.flush()
            let report = churn.readAll(cache, keys: 0..<20)
            say("\(report.reads) found, \(report.torn) torn")
        default: throw Usage()
        }
    }
}
