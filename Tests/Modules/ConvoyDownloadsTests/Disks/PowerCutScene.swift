import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// A download whose system calls are recorded, to simulate a power failure between any two of them.
final class PowerCutScene: Sendable {
    enum Kind: String, CaseIterable, Sendable {
        case plain
        case paused
        /// An old file exists.
        case replaced
        /// The first download is interrupted, and the resource changes.
        case startedOver
        case segments
        /// Space is reserved, and the journal is written in advance.
        case large
    }

    struct Recording: Sendable {
        let before: DiskContents
        let calls: [DiskCall]
    }

    /// A synchronization that a less careful download would omit.
    enum Omission: String, CaseIterable, Sendable {
        case beforeRenaming, behindRenaming, ofClaimedBytes

        func applied(to recording: Recording) -> Recording {
            let calls = recording.calls
            let renaming = calls.lastIndex { if case .rename = $0 { true } else { false } } ?? 0
            var files: [String: Int] = recording.before.names
            for case .create(let path, let file) in calls { files[path] = file }
            let partial = files["file" + PartialPaths.partialSuffix] ?? -1
            var left: [DiskCall] = []
            for (index, call) in calls.enumerated() {
                let isForgotten =
                    switch self {
                    case .beforeRenaming: index < renaming && index > renaming - 3 && call == .synchronize(file: partial)
                    case .behindRenaming: index > renaming && call == .synchronizeDirectory
                    case .ofClaimedBytes: index < renaming - 3 && call == .synchronize(file: partial)
                    }
                if !isForgotten { left.append(call) }
            }
            return Recording(before: recording.before, calls: left)
        }
    }

    let kind: Kind
    let server: TestServer
    /// A URL without a server.
    let deadURL: URL
    let old: [UInt8]?
    /// The server's files by entity tag; the last one is the final one.
    let first: [UInt8]
    let right: [UInt8]

    init(_ kind: Kind) throws {
        self.kind = kind
        var random = SplitMix64(seed: 1)
        let size = kind == .large ? 1_200_000 : 80_000
        first = Array(random.data(count: size))
        right = kind == .startedOver ? Array(random.data(count: size + 1000)) : first
        old = kind == .replaced ? Array("the old file".utf8) : nil
        server = try TestServer()
        deadURL = try #require(URL(string: "http://127.0.0.1:\(try LoopbackPort.free())/file"))
    }

    /// Returns the bytes identified by an entity tag.
    func representation(_ tag: String?) -> [UInt8]? { tag == "\"1\"" ? first : tag == "\"2\"" ? right : nil }

    /// Serves the final file.
    func serveRight() {
        let bytes = kind == .large ? 65_536 : 4096
        server.serve(Data(right), at: "/file", etag: kind == .startedOver ? "\"2\"" : "\"1\"") { _, response in
            var response = response
            response.effects.pace = .drip(bytes: bytes, interval: 0.0005)
            return response
        }
    }

    func makeOperation(_ url: URL, in folder: URL, _ calls: FileCalls) -> DownloadOperation {
        let operation = DownloadOperation(
            request: URLRequest(url: url), destination: folder.appendingPathComponent("file"))
        operation.completionQueue = .global()
        operation.existingFilePolicy = .replace
        operation.synchronizesFile = true
        operation.keepsModificationDate = false
        operation.segmentCount = kind == .segments ? 4 : 1
        operation.minimumSegmentLength = 10_000
        operation.fileCalls = calls
        // Each write is followed by an entry, and every few writes by a synchronization.
        let clock = JumpingClock(step: kind == .large ? 300_000_000 : 1_700_000_000)
        operation.fileClock = { clock.now }
        return operation
    }

    /// Runs a download to its end. Returns the recorded changes to its directory.
    func record(in folder: URL, like contents: DiskContents = DiskContents()) async throws -> Recording {
        try await record(in: folder, like: contents) { recorder in
            serveRight()
            let operation = makeOperation(server.url("/file"), in: folder, recorder.calls)
            try await finish(operation)
        }
    }

    /// Runs the whole scene. Returns the recorded changes to its directory.
    func recordAll(in folder: URL) async throws -> Recording {
        if let old { try Data(old).write(to: folder.appendingPathComponent("file")) }
        switch kind {
        case .plain, .replaced, .segments, .large: return try await record(in: folder)
        case .paused:
            return try await record(in: folder) { recorder in
                let gate = TestServer.Gate()
                server.serve(Data(right), at: "/file", etag: "\"1\"") { [count = right.count] request, response in
                    request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: count / 2) : response
                }
                let operation = makeOperation(server.url("/file"), in: folder, recorder.calls)
                let queue = RequestOperationQueue()
                queue.addOperation(operation)
                for await progress in operation.transferProgressUpdates where progress.bytesReceived >= right.count / 2 {
                    break
                }
                operation.pause()
                operation.resume()
                try await operation.finished()
                gate.open()
            }
        case .startedOver:
            return try await record(in: folder) { recorder in
                server.serve(Data(first), at: "/file", etag: "\"1\"") { [count = first.count] _, response in
                    var response = response.truncated(afterBytes: count * 2 / 3)
                    response.effects.pace = .drip(bytes: 4096, interval: 0.0005)
                    return response
                }
                let broken = makeOperation(server.url("/file"), in: folder, recorder.calls)
                await #expect(throws: URLError.self) { try await self.finish(broken) }
                serveRight()
                let operation = makeOperation(server.url("/file"), in: folder, recorder.calls)
                try await finish(operation)
            }
        }
    }

    private func record(
        in folder: URL, like contents: DiskContents = DiskContents(), _ body: (DiskRecorder) async throws -> Void
    ) async throws -> Recording {
        let recorder = try DiskRecorder(folder, like: contents)
        try await body(recorder)
        let calls = recorder.recorded
        // The model must match the file system.
        var model = DiskModel(recorder.before)
        for call in calls { model.apply(call) }
        #expect(model.visible.isSame(as: try DiskContents(of: folder)))
        return Recording(before: recorder.before, calls: calls)
    }

    func finish(_ operation: DownloadOperation) async throws {
        let queue = RequestOperationQueue()
        queue.addOperation(operation)
        try await operation.finished()
    }
}
