import ConvoyOperations
import ConvoyTestSupport
import ConvoyTransport
import Foundation

@testable import ConvoyDownloads

/// A plan that is executed with simulated servers, as in `Download`, and checked after each step.
struct PlanRun {
    /// A byte of the simulated file: its version and its position.
    private struct Byte: Equatable {
        var version: Int
        var position: Int
    }

    private struct Stream {
        let request: PartRequest
        var answer: SimulatedServers.Answer?
        var isAccepted = false
        var isCancelled = false
    }

    private(set) var faults: [String] = []
    private(set) var log: [String] = []
    private(set) var successes = 0
    private var random: SplitMix64
    private let urls: [URL]
    private var servers: SimulatedServers
    private var plan: DownloadPlan
    private let knowsChecksum: Bool
    private let rightVersion: Int
    private let expectedLength: Int64?
    private var streams: [Int: Stream] = [:]
    private var isStopping = false
    private var isOver = false
    private var now: UInt64 = 1_000_000_000
    private var requests = 0
    // The contents of the file, as in `DownloadFile`.
    private var file: [Byte?] = []
    private var written = ByteRanges()
    private var isPrepared = false
    private var representation: Representation?

    init(seed: UInt64) {
        random = SplitMix64(seed: seed)
        let count = [1, 1, 2, 3].randomElement(using: &random) ?? 1
        urls = (0..<count).map { URL(string: "http://host\($0)/file") ?? URL(fileURLWithPath: "/") }
        servers = SimulatedServers(urls, &random)
        knowsChecksum = Int.random(in: 0..<3, using: &random) == 0
        rightVersion = servers.versions[0].number
        let length = servers.versions[0].length
        expectedLength = [nil, nil, nil, nil, Int64(length), Int64(length + 1)].randomElement(using: &random) ?? nil
        plan = DownloadPlan(sources: [])
        plan = makePlan()
    }

    private mutating func makePlan() -> DownloadPlan {
        DownloadPlan(
            sources: urls, maximumParts: Int.random(in: 1...5, using: &random),
            minimumPart: Int64.random(in: 1...5, using: &random), isVerified: knowsChecksum,
            lengths: expectedLength.map { $0...$0 })
    }

    // MARK: Attempts

    mutating func run() {
        for _ in 0..<Int.random(in: 1...5, using: &random) {
            runTry()
            if successes > 0 || !faults.isEmpty { return }
            if Int.random(in: 0..<3, using: &random) == 0 { servers.change(&random) }
            if Int.random(in: 0..<3, using: &random) == 0 { startAnew() }
        }
    }

    /// Resumes according to the journal, as another process would.
    private mutating func startAnew() {
        log.append("new process")
        plan = makePlan()
        if isPrepared, let representation, !written.isEmpty {
            plan.resume(representation, written)
        } else {
            (file, written) = ([], ByteRanges())
        }
    }

    private mutating func runTry() {
        (streams, isStopping, isOver, requests) = ([:], false, false, 0)
        guard let request = plan.begin() else {
            if plan.isComplete { finish() }
            return
        }
        if !plan.done.isEmpty { begin(plan.representation, keeping: plan.done) }
        start(request)
        var steps = 0
        while !isOver, faults.isEmpty {
            guard !streams.isEmpty else { return fault("no request is running, but the attempt has not ended") }
            step()
            check()
            steps += 1
            if steps > 5000 || requests > 400 { return fault("the attempt does not end") }
        }
    }

    private mutating func step() {
        now += UInt64.random(in: 0...300_000_000, using: &random)
        if Int.random(in: 0..<200, using: &random) == 0 { servers.change(&random) }
        if Int.random(in: 0..<60, using: &random) == 0 { now += 6_000_000_000 }
        if !isStopping, Int.random(in: 0..<100, using: &random) == 0 {
            log.append("stop")
            isStopping = true
            for id in streams.keys { streams[id]?.isCancelled = true }
        }
        guard let id = streams.keys.sorted().randomElement(using: &random), let stream = streams[id] else { return }
        if stream.isCancelled { return end(id, isError: true, status: 200) }
        guard let answer = stream.answer else {
            let answer = servers.answer(stream.request, urls, &random)
            streams[id]?.answer = answer
            guard let head = answer.head else { return end(id, isError: true, status: nil) }
            return receive(head, id)
        }
        if stream.isAccepted, answer.position < answer.end {
            return receive(Int.random(in: 1...answer.end - answer.position, using: &random), id)
        }
        let status = answer.head?.statusCode ?? 0
        let isBad = !(200..<300).contains(status)
        end(id, isError: answer.isCut || isBad, status: isBad ? status : nil)
    }

    // MARK: The role of Download

    private mutating func start(_ request: PartRequest) {
        requests += 1
        log.append("\(request.id) asks \(request.url.host ?? "") \(request.range.map { "\($0)" } ?? "whole")")
        streams[request.id] = Stream(request: request, isCancelled: isStopping || plan.isRestarting)
    }

    private mutating func startMore() {
        for _ in 0..<100 {
            guard !isStopping, !isOver, let more = plan.more(at: now) else { return }
            if let id = more.stops { streams[id]?.isCancelled = true }
            start(more.request)
        }
        fault("the number of parts keeps growing")
    }

    private mutating func receive(_ head: ResponseHead, _ id: Int) {
        guard !isStopping, !plan.isRestarting else { return }
        let isPart = plan.parts[id]?.asksForRange == true
        guard (200..<300).contains(head.statusCode) || isPart && head.statusCode == 416 else { return }
        let verdict = plan.evaluate(head, for: id)
        log.append("\(id) \(head.statusCode) \(head["Content-Range"] ?? "") \(head["ETag"] ?? ""): \(verdict)")
        if verdict == .startsOver {
            begin(plan.representation)
            plan.isVerified = knowsChecksum
        }
        switch verdict {
        case .useless, .changed, .disagrees: streams[id]?.isCancelled = true
        case .unrelated: break
        case .goesOn, .startsOver:
            streams[id]?.isAccepted = true
            startMore()
        }
    }

    private mutating func receive(_ received: Int, _ id: Int) {
        guard let answer = streams[id]?.answer else { return }
        streams[id]?.answer?.position += received
        let claim = plan.claim(Int64(received), for: id)
        if claim == .exceeds { streams[id]?.isCancelled = true }
        guard case .write(let range) = claim else { return }
        // While the bytes are written, other parts may take over some of the part's work.
        if Int.random(in: 0..<20, using: &random) == 0 { startMore() }
        checkOwners()
        for index in 0..<range.count {
            write(Byte(version: answer.version, position: answer.position + index), at: Int(range.lowerBound) + index)
        }
        let flow = plan.didWrite(for: id, at: now)
        log.append("\(id) writes \(range) of version \(answer.version): \(flow)")
        plan.endClaim(of: id)
        if flow == .stop { streams[id]?.isCancelled = true }
    }

    private mutating func end(_ id: Int, isError: Bool, status: Int?) {
        streams[id] = nil
        let end: DownloadPlan.End = !isError ? .complete : status.map { $0 >= 300 } == true ? .refused : .failed
        let ending = plan.parts[id]?.ending ?? end
        if isStopping { plan.drop(id, at: now) }
        let replaces = plan.isReplacing
        let next = isStopping ? .more : plan.didEnd(id, end, at: now)
        log.append("\(id) ends \(ending)\(isStopping ? "" : ": \(next)")")
        let isLast = streams.isEmpty && plan.parts.isEmpty
        if isStopping {
            if isLast { isOver = true }
            return
        }
        switch next {
        case .more: startMore()
        case .finished:
            if isLast { finish() } else { cancelAll() }
        case .ask(let request):
            if replaces, !plan.isReplacing { begin(plan.representation, keeping: plan.done) }
            start(request)
        case .stopAll: cancelAll()
        case .failed:
            isOver = true
            if !streams.isEmpty { fault("failed with \(streams.count) running parts") }
        }
    }

    private mutating func cancelAll() { for id in streams.keys { streams[id]?.isCancelled = true } }

    private mutating func finish() {
        isOver = true
        guard let total = plan.total, plan.done.contains(0..<total) else { return fault("finished with gaps") }
        let bytes = file.prefix(Int(total))
        guard bytes.count == Int(total), bytes.enumerated().allSatisfy({ $0.element?.position == $0.offset }) else {
            return fault("finished with missing bytes")
        }
        let found = Set(bytes.map { $0?.version ?? -1 })
        if knowsChecksum, total > 0, found != [rightVersion] {
            _ = plan.takeBack(nil)
            if case .ask(let request) = plan.goOn() {
                isOver = false
                start(request)
            }
            return
        }
        if found.count > 1 { fault("two versions in one file: \(found)") }
        if let expectedLength, total != expectedLength { fault("\(total) bytes, and \(expectedLength) were expected") }
        successes += 1
    }

    // MARK: The file

    private mutating func begin(_ representation: Representation?, keeping kept: ByteRanges = ByteRanges()) {
        isPrepared = !kept.isEmpty
        (self.representation, written) = (representation, kept)
    }

    private mutating func write(_ byte: Byte, at position: Int) {
        if !isPrepared { (file, isPrepared) = ([], true) }
        while file.count <= position { file.append(nil) }
        file[position] = byte
        written.insert(Int64(position)..<Int64(position) + 1)
    }

    /// Checks that each missing byte belongs to at most one part.
    private mutating func checkOwners() {
        var owned = plan.done
        for (id, part) in plan.parts {
            guard let end = part.end, part.position < end else { continue }
            guard owned.intersection(ByteRanges([part.position..<end])).isEmpty else {
                return fault("\(id) owns bytes of another part, or stored bytes: \(part.position)..<\(end)")
            }
            owned.insert(part.position..<end)
        }
    }

    /// Checks that claimed bytes have been written at their positions, and belong to one version.
    private mutating func check() {
        for claims in [plan.done, written] {
            if !isPrepared, claims == plan.done, !claims.isEmpty, written.isEmpty { continue }
            var versions: Set<Int> = []
            for range in claims.ranges {
                for position in range {
                    guard let byte = Int(position) < file.count ? file[Int(position)] : nil, byte.position == Int(position)
                    else { return fault("byte \(position) is missing") }
                    versions.insert(byte.version)
                }
            }
            if versions.count > 1, !knowsChecksum { return fault("two versions: \(versions)") }
        }
    }

    private mutating func fault(_ text: String) { faults.append(text) }
}
