import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache

/// Processes that are killed while they store and remove responses.
@Suite struct KillTests {
    @Test("after a kill at any time, the next process finds an intact cache with only complete responses")
    func kills() async throws {
        let rounds = ProcessInfo.processInfo.environment["CONVOY_STORE_KILLS"].flatMap { Int($0) } ?? 40
        let disk = try CacheDisk()
        var random = SplitMix64(seed: 7)
        var found = 0
        for round in 0..<rounds {
            let process = try ChildProcess(
                CacheDisk.program(), ["cache", disk.path, "churn", "\(round)", "60"], directory: disk.directory.url,
                log: disk.directory.file("log"))
            // The process may be killed before the directory exists or long after.
            let moment = UInt32.random(in: 10_000..<150_000, using: &random)
            await withCheckedContinuation { continuation in
                DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(Int(moment))) {
                    kill(process.id, SIGKILL)
                    continuation.resume()
                }
            }
            process.stop()
            #expect(process.exitStatus == 128 + SIGKILL, "\(process.output)")
            let cache = try HTTPCache(
                directory: URL(fileURLWithPath: disk.path), diskCapacity: 64 << 20, memoryCapacity: 1 << 20)
            let report = CacheChurnReader.readAll(cache)
            found += report.keys.count
            #expect(report.torn == 0, "round \(round)")
            #expect(cache.failure == nil)
            cache.storage.disk?.tidy(olderThan: 0)
            try disk.expectSound("round \(round)")
        }
        // The test is meaningful only if enough responses were found.
        #expect(found > rounds)
    }
}
