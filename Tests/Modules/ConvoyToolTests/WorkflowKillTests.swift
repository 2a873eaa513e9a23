import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// An export that is killed at a random moment and resumed with `--resume`. `Tests/long workflows` does this 50 times.
@Suite(.serialized) struct WorkflowKillTests {
    private static let fileCount = 300
    private static let kills = ProcessInfo.processInfo.environment["CONVOY_WORKFLOW_KILLS"].flatMap { Int($0) } ?? 2

    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("POST", "/login", .json(["token": "token-4711"]))
        let ids = (1...Self.fileCount).map { "\($0)" }.joined(separator: ",")
        server.route("/items", .json(text: "{\"ids\": [\(ids)]}"))
        server.route("/files/*") { request in
            guard request.headers["Authorization"] == "Bearer token-4711" else { return .status(401) }
            return .pattern(count: 2000 + (Int(request.path.split(separator: "/").last ?? "") ?? 0))
        }
    }

    private var manifest: String {
        """
        baseURL: \(server.url.absoluteString)
        secrets: [login.token]
        requests:
          login: {post: login, capture: {token: "json:/token"}}
          list: {get: items, bearer: "${login.token}", capture: {ids: "json:/ids"}}
          file: {forEach: "${list.ids}", get: "files/${item}", bearer: "${login.token}", output: "out/${item}.bin"}
        """
    }

    @Test func `a killed export resumes without repeating successful requests`() async throws {
        var longest = 1.0
        for round in 0..<Self.kills {
            let scratch = try Scratch()
            try scratch.write(manifest, to: "m.yaml")
            let tool = try ToolProcess(["run", "--json", "m.yaml"], in: scratch.url)
            let begun = ContinuousClock.now
            // The first round measures the duration of a run, and is killed at its end.
            let moment = round == 0 ? 5 : Double.random(in: 0...longest)
            let killer = Task {
                try? await Task.sleep(for: .seconds(moment))
                tool.send(signal: SIGKILL)
            }
            let first = try await tool.finished()
            killer.cancel()
            if round == 0 { longest = min(5, (ContinuousClock.now - begun).seconds) }
            let lines = first.output.split(separator: "\n").compactMap {
                try? JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
            }
            let done = Set(lines.filter { $0["state"] as? String == "succeeded" }.compactMap { $0["item"] as? String })
            server.forgetRequests()
            let second = try await ToolProcess.run(["run", "--json", "--resume", "m.yaml"], in: scratch.url)
            #expect(second.status == 0, "round \(round): \(second.errors)")
            let again = server.requests.filter { $0.path.hasPrefix("/files/") }.map { String($0.path.dropFirst(7)) }
            #expect(done.isDisjoint(with: again), "round \(round): \(done.intersection(again).sorted()) again")
            for id in 1...Self.fileCount {
                #expect(
                    try scratch.data("out/\(id).bin") == PatternBytes.data(count: 2000 + id), "round \(round), file \(id)")
            }
            let names = try FileManager.default.contentsOfDirectory(atPath: scratch.url.appendingPathComponent("out").path)
            #expect(names.count == Self.fileCount, "round \(round): \(names.filter { !$0.hasSuffix(".bin") })")
            print(
                "round \(round): killed after \(String(format: "%.3f", moment)) s with \(done.count) done, \(again.count) requested again"
            )
        }
    }
}
