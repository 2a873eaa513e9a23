import CLimit
import Convoy
import Foundation
import FoundationNetworking

extension Case {
    /// A large file, downloaded by an operation that a later process could resume.
    static let downloadOperation = Case(
        name: "download-operation", summary: "1 GiB by a DownloadOperation",
        trials: [
            Trial(
                name: "download-operation", unit: "MiB/s", limit: "curl",
                subjects: [
                    Subject("curl", needs: "curl") { try Rival($0).curl() },
                    Subject("wget2", needs: "wget2") { try Rival($0).wget2() },
                    Subject("aria2c -x1", needs: "aria2c") { try Rival($0).aria2c(["-x1", "-s1"]) },
                    Subject(Trial.convoy) { try LargeDownload($0).run(segments: 1) },
                ])
        ],
        bars: [
            .atLeast(1, "of the fastest of curl -o, wget2 and aria2c -x1") {
                $0.ratioToFastest("download-operation", of: ["curl", "wget2", "aria2c -x1"])
            },
            .atMost(8, "MiB of growth of resident memory") { $0.detail("grown MiB", "download-operation") },
        ], needsLargeFile: true)

    /// A large file over four connections.
    static let downloadSegments = Case(
        name: "download-segments", summary: "1 GiB by a DownloadOperation over four connections",
        trials: [
            Trial(
                name: "download-segments", unit: "MiB/s", limit: "aria2c",
                subjects: [
                    Subject("aria2c", needs: "aria2c") { try Rival($0).aria2c(["-x4", "-s4"]) },
                    Subject(Trial.convoy) { try LargeDownload($0).run(segments: 4) },
                ])
        ],
        bars: [
            .atLeast(1, "of aria2c -x4 -s4") { $0.ratio("download-segments", to: "aria2c") },
            .atMost(8, "MiB of growth of resident memory") { $0.detail("grown MiB", "download-segments") },
        ], needsLargeFile: true)

    /// A file over a link that delays and loses packets.
    static let downloadLossy = Case(
        name: "download-lossy", summary: "16 MiB by a DownloadOperation with 50 ms delay and 1 % loss",
        trials: [
            Trial(
                name: "download-lossy-1", unit: "MiB/s", limit: "curl",
                subjects: [
                    Subject("curl", needs: "curl") { try Rival($0).curl() },
                    Subject("aria2c -x1", needs: "aria2c") { try Rival($0).aria2c(["-x1", "-s1"]) },
                    Subject(Trial.convoy) { try LargeDownload($0).run(segments: 1) },
                ]),
            Trial(
                name: "download-lossy-4", unit: "MiB/s", limit: "aria2c",
                subjects: [
                    Subject("aria2c", needs: "aria2c") { try Rival($0).aria2c(["-x4", "-s4", "-k1M"]) },
                    Subject(Trial.convoy) { try LargeDownload($0).run(segments: 4) },
                ]),
        ],
        bars: [
            .atLeast(0.9, "of the faster of curl -o and aria2c -x1") {
                $0.ratioToFastest("download-lossy-1", of: ["curl", "aria2c -x1"])
            },
            .atLeast(0.9, "of aria2c -x4 -s4") { $0.ratio("download-lossy-4", to: "aria2c") },
        ], needsLargeFile: true, needsLossyLink: true)

    /// Many small files.
    static let downloadMany = Case(
        name: "download-many", summary: "2,000 files of 8 KiB by DownloadOperations, 16 at once",
        trials: [
            Trial(
                name: "download-many", unit: "files/s", limit: "aria2c",
                subjects: [
                    Subject("aria2c", needs: "aria2c") { try ManyFiles($0).aria2c() },
                    Subject("wget2", needs: "wget2") { try ManyFiles($0).wget2() },
                    Subject(Trial.convoy) { try ManyFiles($0).convoy() },
                ])
        ],
        bars: [
            .atLeast(1.2, "of the faster of aria2c -j 16 -i and wget2 -i") {
                $0.ratioToFastest("download-many", of: ["aria2c", "wget2"])
            },
            .atMost(8, "MiB of growth of resident memory") { $0.detail("grown MiB", "download-many") },
        ])
}

extension Results {
    /// Convoy's figure divided by the best of others in the same round.
    fileprivate func ratioToFastest(_ trial: String, of others: [String]) -> Double? {
        others.compactMap { ratio(trial, to: $0) }.min()
    }
}

/// One download of the large file.
private struct LargeDownload {
    let file: LargeFile
    private var context: Context { file.context }

    init(_ context: Context) throws { file = try LargeFile(context) }

    func run(segments: Int) throws -> Sample {
        let queue = RequestOperationQueue()
        // Create objects with one-time cost before the measurement.
        try run("small", to: context.scratch.appendingPathComponent("warm-up"), segments: 1, queue)
        try? FileManager.default.removeItem(at: context.scratch.appendingPathComponent("warm-up"))
        return try file.verified(try file.measure { try run("large", to: file.target, segments: segments, queue) })
    }

    private func run(_ path: String, to file: URL, segments: Int, _ queue: RequestOperationQueue) throws {
        let request = URLRequest(url: context.url.appendingPathComponent(path))
        let operation = DownloadOperation(request: request, destination: file)
        operation.segmentCount = segments
        operation.completionQueue = DispatchQueue(label: "bench.completion")
        let countdown = Countdown(1)
        operation.setCompletionHandler { _, _ in
            countdown.done()
        } failure: { _, error in
            Report.note("\(error)")
            countdown.done(false)
        }
        queue.addOperation(operation)
        try BenchError.check(failed: countdown.wait(), of: 1)
    }
}

/// Programs that download the large file. Their startup of a few milliseconds is included.
private struct Rival {
    private let file: LargeFile

    init(_ context: Context) throws { file = try LargeFile(context) }

    private var url: String { file.context.url.appendingPathComponent("large").absoluteString }

    func curl() throws -> Sample { try run("curl", ["-q", "-s", "-S", "-f", "-o", file.target.path, url]) }

    func wget2() throws -> Sample {
        try run("wget2", ["--no-config", "-q", "--no-proxy", "--chunk-size=0", "-O", file.target.path, url])
    }

    func aria2c(_ arguments: [String]) throws -> Sample {
        try run(
            "aria2c",
            arguments + [
                "--no-conf", "-q", "--file-allocation=none", "--allow-overwrite=true", "-d", file.context.scratch.path,
                "-o", file.target.lastPathComponent, url,
            ])
    }

    private func run(_ program: String, _ arguments: [String]) throws -> Sample {
        let run = try External.whole(program, arguments, context: file.context)
        return try file.verified(file.sample(run.cost, peak: run.peakKilobytes))
    }
}

/// The download of many small files into a directory.
private struct ManyFiles {
    let context: Context
    let count: Int
    let directory: URL

    init(_ context: Context) throws {
        self.context = context
        count = context.count(2_000)
        directory = context.scratch.appendingPathComponent("many")
        try? FileManager.default.removeItem(at: directory)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    private func url(_ index: Int) -> URL { context.url.appendingPathComponent("many/\(index)") }

    func convoy() throws -> Sample {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 16
        let completion = DispatchQueue(label: "bench.completion")
        // Create the list beforehand, like that of the other programs.
        let places = (0..<count).map { (url: url($0), file: directory.appendingPathComponent("\($0)")) }
        try run(places.prefix(1), queue, completion)
        try FileManager.default.removeItem(at: directory.appendingPathComponent("0"))
        limit_reset_peak()
        let before = limit_memory("VmRSS")
        let cost = try Cost { try run(places[...], queue, completion) }
        let grown = limit_memory("VmHWM") - before
        return try verified(cost, peak: limit_memory("VmHWM"), grown: grown)
    }

    private func run(
        _ places: ArraySlice<(url: URL, file: URL)>, _ queue: RequestOperationQueue, _ completion: DispatchQueue
    ) throws {
        let countdown = Countdown(places.count)
        for place in places {
            let operation = DownloadOperation(request: URLRequest(url: place.url), destination: place.file)
            operation.completionQueue = completion
            operation.setCompletionHandler { _, _ in
                countdown.done()
            } failure: { _, error in
                Report.note("\(error)")
                countdown.done(false)
            }
            queue.addOperation(operation)
        }
        try BenchError.check(failed: countdown.wait(), of: places.count)
    }

    func aria2c() throws -> Sample {
        try program(
            "aria2c", ["--no-conf", "-q", "--file-allocation=none", "-j", "16", "-d", directory.path, "-i", list().path])
    }

    func wget2() throws -> Sample {
        try program(
            "wget2", ["--no-config", "-q", "--no-proxy", "--max-threads=16", "-P", directory.path, "-i", list().path])
    }

    private func list() throws -> URL {
        let list = context.scratch.appendingPathComponent("list")
        try (0..<count).map { url($0).absoluteString + "\n" }.joined().write(to: list, atomically: true, encoding: .utf8)
        return list
    }

    private func program(_ program: String, _ arguments: [String]) throws -> Sample {
        let run = try External.whole(program, arguments, context: context)
        return try verified(run.cost, peak: run.peakKilobytes, grown: nil)
    }

    private func verified(_ cost: Cost, peak: Int, grown: Int?) throws -> Sample {
        defer { try? FileManager.default.removeItem(at: directory) }
        for index in 0..<count {
            let data = try Data(contentsOf: directory.appendingPathComponent("\(index)"))
            guard data.count == 8 << 10 else { throw BenchError("file \(index) has \(data.count) bytes") }
        }
        var sample = Sample.rate(count, cost, peakKilobytes: peak)
        if let grown { sample.details["grown MiB"] = Double(grown) / 1024 }
        return sample
    }
}
