import CLimit
import Convoy
import Foundation
import FoundationNetworking
import Synchronization

extension Case {
    /// The latency of small requests beside a transfer at full speed, over the same network thread.
    static let beside: Case = {
        let trials = Neighbour.allCases.map { neighbour in
            Trial(
                name: "beside-\(neighbour.rawValue)", unit: "ms at p99", limit: nil,
                subjects: [Subject(Trial.convoy) { try measure(neighbour, $0) }])
        }
        return Case(
            name: "beside", summary: "small GETs at 2,000 a second beside a transfer at full speed", trials: trials,
            bars: trials.map { trial in .atMost(5, "ms at p99, \(trial.name)") { $0.median(trial.name, Trial.convoy) } },
            needsLargeFile: true)
    }()

    /// What is transferred beside the small requests.
    private enum Neighbour: String, CaseIterable {
        case nothing, download, http2, segments, upload
    }

    private static func measure(_ neighbour: Neighbour, _ context: Context) throws -> Sample {
        let manager = HTTPRequestOperationManager(
            configuration: ConnectionConfiguration(certificateAuthorities: context.certificateAuthority))
        manager.responseSerializer = HTTPResponseSerializer()
        manager.completionQueue = DispatchQueue(label: "Convoy.Bench.beside")
        let file = try LargeFile(context)
        let isOver = Atomic<Bool>(false)
        let transferred = Atomic<Int>(0)
        let transfers = DispatchGroup()
        if neighbour != .nothing {
            transfers.enter()
            Thread.detachNewThread {
                while !isOver.load(ordering: .relaxed) {
                    guard let operations = try? operations(neighbour, manager, file) else { break }
                    for operation in operations { manager.enqueue(operation) }
                    for operation in operations { operation.waitUntilFinished() }
                    transferred.add(operations.count, ordering: .relaxed)
                }
                transfers.leave()
            }
        }
        let count = context.count(6_000)
        let latencies = Latencies(count)
        let cost = try Cost {
            for number in 0..<count {
                let operation = try manager.makeOperation(.get, context.url.appendingPathComponent("small").absoluteString)
                let began = DispatchTime.now().uptimeNanoseconds
                operation.completionBlock = { latencies.note(DispatchTime.now().uptimeNanoseconds - began, of: number) }
                manager.enqueue(operation)
                usleep(500)
            }
            latencies.wait()
        }
        isOver.store(true, ordering: .relaxed)
        manager.operationQueue.cancelAllOperations()
        transfers.wait()
        return Sample(
            latencies.milliseconds(at: 0.99), cpuMicroseconds: cost.cpuSeconds * 1e6 / Double(count),
            details: ["p50": latencies.milliseconds(at: 0.5), "p99.9": latencies.milliseconds(at: 0.999)])
    }

    private static func operations(
        _ neighbour: Neighbour, _ manager: HTTPRequestOperationManager, _ file: LargeFile
    ) throws -> [Operation] {
        let context = file.context
        let url = neighbour == .http2 ? context.secureURL : context.url
        switch neighbour {
        case .nothing: return []
        case .download, .http2, .segments:
            return try (0..<(neighbour == .segments ? 4 : 1)).map { number in
                let operation = try manager.makeOperation(.get, url.appendingPathComponent("large").absoluteString)
                let target = context.scratch.appendingPathComponent("beside-\(number)")
                operation.outputStream = FileOutputStream(fileURL: target)
                return operation
            }
        case .upload:
            var request = URLRequest(url: context.sinkURL)
            request.httpMethod = "PUT"
            request.httpBodyStream = InputStream(url: context.largeFile)
            request.setValue("\(Int(file.mebibytes) << 20)", forHTTPHeaderField: "Content-Length")
            return [manager.makeOperation(request: request)]
        }
    }
}

/// The latencies of requests, which are noted on any thread.
private final class Latencies: Sendable {
    private let nanoseconds: Mutex<[UInt64]>
    private let pending = DispatchGroup()

    init(_ count: Int) {
        nanoseconds = Mutex(Array(repeating: 0, count: count))
        for _ in 0..<count { pending.enter() }
    }

    func note(_ latency: UInt64, of number: Int) {
        nanoseconds.withLock { $0[number] = latency }
        pending.leave()
    }

    func wait() { pending.wait() }

    /// The latency that a share of the requests does not exceed.
    func milliseconds(at share: Double) -> Double {
        let sorted = nanoseconds.withLock { $0.sorted() }
        return Double(sorted[min(sorted.count - 1, Int(share * Double(sorted.count)))]) / 1e6
    }
}
