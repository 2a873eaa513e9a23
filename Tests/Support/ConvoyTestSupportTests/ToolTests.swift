import ConvoyTestSupport
import Foundation
import Testing

@Suite(.serialized)
struct ToolTests {
    @Test func `the generator is reproducible and matches the published reference values`() {
        var first = SplitMix64(seed: 1_234_567), second = first
        #expect(first.data(count: 1003) == second.data(count: 1003))
        var known = SplitMix64(seed: 1_234_567)
        #expect(known.next() == 6_457_827_717_110_365_317 && known.next() == 3_203_168_211_198_807_973)
    }

    @Test func `a temporary directory is removed with its owner`() throws {
        var directory: TemporaryDirectory? = try TemporaryDirectory()
        let path = try #require(directory).write(Data("x".utf8), to: "a/b").path
        #expect(FileManager.default.fileExists(atPath: path))
        directory = nil
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test func `a wait that times out fails with its condition and location`() throws {
        let error = #expect(throws: TimeoutError.self) {
            try eventually(timeout: 0.01, "the impossible") { false }
        }
        #expect(error?.description.contains("the impossible (ConvoyTestSupportTests/ToolTests.swift:") == true)
        try eventually { true }
        let semaphore = DispatchSemaphore(value: 0)
        semaphore.signal()
        try semaphore.waitOrThrow()
        #expect(throws: TimeoutError.self) { try semaphore.waitOrThrow(timeout: 0.01) }
    }

    @Test func `the meters report descriptors, threads and memory`() throws {
        let (listener, port) = try LoopbackPort.listener()
        #expect(ProcessMeters.descriptorTargets.contains { $0.hasPrefix("\(listener) socket:") })
        #expect(ProcessMeters.openDescriptors > 3 && ProcessMeters.threads >= 1 && port > 0)
        #expect(ProcessMeters.residentKilobytes > 1000)
        #expect(ProcessMeters.peakResidentKilobytes >= ProcessMeters.residentKilobytes / 2)
        close(listener)
    }
}
