import ConvoyOperations
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyUploads

/// Tests that an upload completes once for any behaviour of the server and any event: successfully with every byte on
/// the server, or with an error. Only bytes that the server has confirmed count as progress.
///
/// Each case is derived from a printed seed. `CONVOY_SEED` repeats a run, and `CONVOY_UPLOAD` one of its cases.
/// `CONVOY_UPLOADS` sets the number of cases, and `CONVOY_BEHAVIOURS` limits the behaviours.
struct UploadPropertyTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let width = 16

    private final class Results: Sendable {
        let next = Locked(0)
        let faults = Locked<[String]>([])
        let successes = Locked(0)
    }

    @Test func `an upload completes with every byte on the server or fails exactly once`() throws {
        let seed = Self.environment["CONVOY_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...0xFFFF_FFFF)
        let count = Self.environment["CONVOY_UPLOADS"].flatMap { Int($0) } ?? PropertyBudget.rounds(300)
        let numbers = Self.environment["CONVOY_UPLOAD"].flatMap { Int($0) }.map { [$0] } ?? Array(0..<count)
        let chosen = Self.environment["CONVOY_BEHAVIOURS"]?.split(separator: ",").map(String.init)
        let behaviours = UploadBehaviour.allCases.filter { chosen?.contains($0.rawValue) ?? true }
        try #require(!behaviours.isEmpty)
        print("uploads: \(numbers.count) cases of \(behaviours.count) behaviours, CONVOY_SEED=\(seed)")
        let results = Results()
        let directory = try TemporaryDirectory(prefix: "convoy-uploads", isInMemory: true)
        let threads = DispatchGroup()
        for _ in 0..<min(Self.width, numbers.count) {
            threads.enter()
            Thread {
                while let index = results.next.withLock({ next -> Int? in
                    guard next < numbers.count, results.faults.withLock({ $0.count }) < 20 else { return nil }
                    defer { next += 1 }
                    return next
                }) {
                    let number = numbers[index]
                    let behaviour = behaviours[number % behaviours.count]
                    let test = UploadCase(seed: seed, number: number, behaviour: behaviour)
                    do {
                        let (isSuccess, fault) = try test.run(in: directory.url)
                        if isSuccess { results.successes.withLock { $0 += 1 } }
                        if let fault { results.faults.withLock { $0.append("\(number) \(behaviour): \(fault)") } }
                    } catch {
                        results.faults.withLock { $0.append("\(number) \(behaviour): could not be run: \(error)") }
                    }
                }
                threads.leave()
            }.start()
        }
        threads.wait()
        let (faults, successes) = (results.faults.withLock { $0 }, results.successes.withLock { $0 })
        print("uploads: \(successes) of \(numbers.count) whole, \(faults.count) with a fault")
        for fault in faults.prefix(12) { print(fault) }
        #expect(faults.isEmpty, "CONVOY_SEED=\(seed)")
        #expect(numbers.count < 100 || successes > numbers.count / 5)
    }
}

/// A case of the property test: an upload, or several operations in a row that are cancelled, like a killed process.
private struct UploadCase {
    let seed: UInt64
    let number: Int
    let behaviour: UploadBehaviour

    func run(in directory: URL) throws -> (isSuccess: Bool, fault: String?) {
        var random = SplitMix64(seed: seed &+ UInt64(number) &* 0x9E37_79B9)
        let count = [0, 1, 100, 1000, 5000, 40_000].randomElement(using: &random) ?? 100
        let bytes = random.data(count: count)
        let file = directory.appendingPathComponent("case\(number)")
        try bytes.write(to: file)
        let server = try makeServer(count, &random)
        defer {
            server.stop()
            try? FileManager.default.removeItem(at: file)
        }
        let isDraft = Int.random(in: 0..<3, using: &random) == 0
        let version = Int.random(in: 3...8, using: &random)
        let chunk = Int64([count / 3 + 1, 700, 100_000].randomElement(using: &random) ?? 1000)
        let retries = [0, 2, 5].randomElement(using: &random) ?? 0
        let restarts = Bool.random(using: &random)
        let cuts = (0..<3).map { _ in Int.random(in: 0..<4, using: &random) }
        var last: UploadOperation?
        for round in 0..<4 {
            let upload = UploadOperation(request: URLRequest(url: server.url()), file: file)
            upload.uploadProtocol = isDraft ? .draft(interopVersion: version) : .tus
            upload.chunkSize = .fixed(chunk)
            upload.resumption = restarts ? .resumeOrRestart : .resume
            upload.settleForTests(retries: retries)
            upload.patience = 0.02
            upload.idleTimeout = 0.5
            if behaviour == .otherOrigin || number.isMultiple(of: 7) { upload.parallelPartCount = isDraft ? 1 : 2 }
            upload.minimumPartLength = 50
            if let fault = watch(upload, server, bytes, cuts: round < 3 ? cuts[round] : 0) { return (false, fault) }
            last = upload
            if upload.error == nil { break }
        }
        guard let last else { return (false, "nothing ran") }
        guard last.error == nil else { return (false, nil) }
        guard !behaviour.mayLie else { return (true, nil) }
        let stored =
            server.stored(last.uploadURL)
            ?? server.state.withLock { state in
                state.uploads.values.first { $0.data == bytes }
            }
        guard let stored, stored.data == bytes else {
            return (true, "success with \(stored?.data.count ?? -1) of \(count) bytes at the server")
        }
        return (true, nil)
    }

    private func makeServer(_ total: Int, _ random: inout SplitMix64) throws -> UploadServer {
        let generator = Locked(SplitMix64(seed: random.next()))
        let behaviour = behaviour
        let number = Locked(0)
        return try UploadServer { request, _ in
            guard request.method != "OPTIONS" else { return nil }
            let (chance, count) = generator.withLock { generator in
                (
                    Double.random(in: 0..<1, using: &generator),
                    number.withLock {
                        $0 += 1; return $0
                    }
                )
            }
            return behaviour.fault(count, chance, request, total)
        }
    }

    /// Runs an upload to its end, with pauses or a cancellation in between. Returns a description of the failure, if
    /// any.
    private func watch(_ upload: UploadOperation, _ server: UploadServer, _ bytes: Data, cuts: Int) -> String? {
        let ends = Locked(0)
        let ahead = Locked<String?>(nil)
        let done = DispatchSemaphore(value: 0)
        let steps = Locked(0)
        upload.uploadProgressHandler = { [weak upload] _, total, _ in
            if total > Int64(bytes.count) { ahead.withLock { $0 = "progress of \(total)" } }
            let step = steps.withLock {
                $0 += 1; return $0
            }
            guard step == 2 else { return }
            switch cuts {
            case 1: upload?.cancel()
            case 2:
                upload?.pause()
                upload?.resume()
            default: break
            }
        }
        upload.setCompletionHandler(
            success: { _, _ in
                ends.withLock { $0 += 1 }
                done.signal()
            },
            failure: { _, _ in
                ends.withLock { $0 += 1 }
                done.signal()
            })
        RequestOperationQueue().addOperation(upload)
        guard done.wait(timeout: .now() + 60) == .success else { return "did not end: \(upload)" }
        if let fault = ahead.withLock({ $0 }) { return fault }
        if ends.withLock({ $0 }) != 1 { return "ended \(ends.withLock { $0 }) times" }
        return nil
    }
}
