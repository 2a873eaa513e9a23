import Convoy
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Every secret name in every part of a request. The value must reach the intended server, and must appear in nothing
/// else that is written or sent.
@Suite struct SecretMatrixTests {
    /// A name with a value that can be recognized in any output.
    struct Plant: Sendable {
        let name: String
        let core: String
        let value: String
        let isField: Bool

        init(_ name: String, _ number: Int, isField: Bool) {
            (self.name, self.isField) = (name, isField)
            core = "Pl\(100 + number)ZqVw\(7_919_000 + number * 104_729)"
            value =
                switch name {
                case "Authorization": "Basic " + Data("someone:\(core)".utf8).base64EncodedString()
                case "Proxy-Authorization": "Bearer \(core)"
                case "Cookie": "theme=dark; id=\(core)"
                case "Referer": "http://127.0.0.1/page?token=\(core)"
                default: isField ? core : "\(core)/+="
                }
        }

        /// The unchanged value, the fully percent-encoded value, and the value in Base64 at every offset.
        var forms: [Data] {
            let bytes = Array(core.utf8)
            let encoded = [true, false].map { isUpper in
                bytes.map { "%" + String($0, radix: 16, uppercase: isUpper) }.joined()
            }
            let base64 = (0..<3).map { offset in
                // The first and last characters contain bits of the adjacent bytes.
                let text = Data([UInt8](repeating: 0x20, count: offset) + bytes).base64EncodedString()
                return String(text.filter { $0 != "=" }.dropFirst(offset == 0 ? 0 : offset + 1).dropLast())
            }
            return ([core] + encoded + base64).map { Data($0.utf8) }
        }
    }

    /// The secrets of one request.
    struct Group: Sendable, CustomTestStringConvertible {
        let plants: [Plant]
        var fields: [Plant] { plants.filter(\.isField) }
        var items: [Plant] { plants.filter { !$0.isField } }
        var testDescription: String { plants.map(\.name).joined(separator: " ") }
        func request(_ url: URL, hasItems: Bool = true) -> URLRequest {
            let query = items.map { "\($0.name)=\($0.value.addingPercentEncoding(withAllowedCharacters: .alphanumerics)!)" }
            let text = url.absoluteString + (hasItems ? "?page=2&" + query.joined(separator: "&") : "")
            var request = URLRequest(url: URL(string: text)!)
            for field in fields { request.setValue(field.value, forHTTPHeaderField: field.name) }
            return request
        }
    }

    static let fields = [
        "Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "X-Amz-Security-Token", "Private-Token", "Referer",
        "Ocp-Apim-Subscription-Key", "X-Access-Key", "X-Functions-Key", "Proxy-Authorization", "X-Csrf-Token", "Api-Key",
        "X-Session-Id", "X-Vault-Token", "X-Goog-Api-Key", "X-Hub-Signature-256", "X-Client-Secret", "X-Refresh-Token",
        "DD-Application-Key",
    ]
    static let items = [
        "access_token", "reset_token", "id_token_hint", "sessionToken", "api_key", "sig", "X-Amz-Signature", "Policy",
        "Signature", "password", "user[password]", "client_secret", "apikey", "X-Amz-Credential", "AWSAccessKeyId",
        "refresh_token", "jwt", "X-Goog-Signature", "code_verifier", "pwd",
    ]
    static let groups: [Group] = (0..<4).map { number in
        let range = (number * 5)..<(number * 5 + 5)
        let planted = range.map { Plant(fields[$0], $0, isField: true) }
        return Group(plants: planted + range.map { Plant(items[$0], 50 + $0, isField: false) })
    }

    enum Way: CaseIterable, Sendable {
        case direct, missing, redirected, redirectedToOtherPort, redirectedToOtherHost, retried, coalesced, cached, validated
        case paused, cut, segments, unreachable
    }

    /// Everything that was written and sent, by source.
    final class Haul: Sendable {
        private let texts = Locked<[(place: String, data: Data)]>([])

        func add(_ place: String, _ text: String) { add(place, Data(text.utf8)) }
        func add(_ place: String, _ data: Data) { texts.withLock { $0.append((place, data)) } }

        func add(filesOf directory: URL) throws {
            let files = FileManager.default.enumerator(at: directory, includingPropertiesForKeys: nil)
            for case let file as URL in try #require(files) {
                add("the name of a file", file.lastPathComponent)
                if let data = try? Data(contentsOf: file) { add(file.lastPathComponent, data) }
            }
        }

        func count(of place: String) -> Int { texts.withLock { $0.count { $0.place == place } } }

        /// Returns the secrets that were found, with their sources.
        func leaks(of plants: [Plant]) -> [String] {
            texts.withLock { $0 }.flatMap { place, data in
                plants.filter { $0.forms.contains { data.range(of: $0) != nil } }.map { "\($0.name) in \(place)" }
            }
        }
    }

    let server, other: TestServer
    let directory: TemporaryDirectory
    let manager = HTTPRequestOperationManager(completionQueue: .global())
    let haul = Haul(), recorder = HARRecorder()
    let traceQueue = DispatchQueue(label: "trace")

    init() throws {
        (server, other, directory) = (try TestServer(), try TestServer(), try TemporaryDirectory())
        other.route("/target", .text("other"))
        manager.responseSerializer = HTTPResponseSerializer()
        manager.collectsMetrics = true
        var policy = RetryPolicy(maximumRetryCount: 2)
        policy.initialDelay = 0.001
        manager.retryPolicy = policy
        let haul = haul
        manager.connectionConfiguration.trace = ConnectionTrace(on: traceQueue) { haul.add("trace", "\($0)") }
        manager.eventMonitors = [
            recorder.monitor,
            EventMonitor.logging(at: .trace) { haul.add("log", "\($1) \($2)") },
            EventMonitor { for event in $0 { haul.add("event", "\(event) \(event.kind) \(event.metadata)") } },
        ]
    }

    private func target(_ host: String) -> String { "http://\(host):\(other.url.port!)/target" }

    private func operations(_ way: Way, _ group: Group) async throws -> [HTTPRequestOperation] {
        let gate = TestServer.Gate()
        let request = group.request(server.url("/file"))
        let bytes = PatternBytes.data(count: 600_000)
        func run(_ count: Int = 1) async -> [HTTPRequestOperation] {
            let operations = (0..<count).map { _ in manager.makeOperation(request: request) }
            manager.enqueue(operations)
            for operation in operations { try? await operation.finished() }
            return operations
        }
        switch way {
        case .direct: server.route("/file", .text("hello"))
        case .missing: server.route("/file", .status(404))
        case .redirected:
            server.route("/file", .redirect(to: "/next?\(request.url?.query ?? "")", status: 307))
            server.route("/next", .text("hello"))
        case .redirectedToOtherPort:
            server.route("/file", .redirect(to: target("127.0.0.1"), status: 307))
        case .redirectedToOtherHost:
            server.route("/file", .redirect(to: target("localhost"), status: 302))
        case .retried: server.route("/file", inTurn: [.status(503), .text("hello")])
        case .coalesced:
            manager.coalescesIdenticalRequests = true
            server.route("/file", .text("hello").held(by: gate))
            let operations = (0..<3).map { _ in manager.makeOperation(request: request) }
            manager.enqueue(operations)
            try await server.waitForRequests(count: 1)
            gate.open()
            for operation in operations { try await operation.finished() }
            #expect(server.requests.count == 1)
            return operations
        case .cached, .validated:
            let cache = try HTTPCache(directory: directory.url.appendingPathComponent("cache"))
            manager.cache = cache
            let control = "public, " + (way == .cached ? "max-age=100" : "no-cache")
            let vary = group.fields.map(\.name).joined(separator: ", ")
            server.route("/file") { request in
                let isKnown = request.headers["If-None-Match"] == "\"1\""
                let response = isKnown ? TestServer.Response.status(304) : .text("hello")
                return response.header("ETag", "\"1\"").header("Cache-Control", control).header("Vary", vary)
            }
            let operations = await run() + run()
            try cache.flush()
            #expect(cache.stores > 0 && (way == .cached ? cache.hits : cache.validations) > 0)
            return operations
        case .paused:
            server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
                request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 100_000) : response
            }
            let operation = manager.enqueue(manager.makeOperation(request: request))
            try await waitUntil("a response") { operation.response != nil }
            operation.pause()
            gate.open()
            operation.resume()
            try await operation.finished()
            return [operation]
        case .cut:
            server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
                request.headers["Range"] == nil ? response.truncated(afterBytes: 100_000) : response
            }
        case .segments:
            server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.truncated(afterBytes: 50_000) }
            let operation = DownloadOperation(request: request, destination: directory.file("file.bin"))
            (operation.segmentCount, operation.minimumSegmentLength) = (3, 100_000)
            operation.eventMonitors = manager.eventMonitors
            operation.connectionConfiguration = manager.connectionConfiguration
            manager.enqueue(operation)
            await #expect(throws: (any Error).self) { try await operation.finished() }
            return [operation]
        case .unreachable: server.stop()
        }
        return await run()
    }

    @Test(arguments: groups, Way.allCases)
    func `a secret reaches its server and appears nowhere else`(group: Group, way: Way) async throws {
        let operations = try await operations(way, group)
        for operation in operations {
            haul.add("description", String(describing: operation) + operation.debugDescription)
            haul.add("metrics", operation.metrics.map { "\($0) " + String(reflecting: $0.description) } ?? "")
            haul.add("curlCommand", operation.curlCommand())
            if let error = operation.error {
                haul.add("error", "\(error) \(error.localizedDescription) \((error as NSError).localizedDescription)")
            }
        }
        for monitor in manager.eventMonitors {
            await withCheckedContinuation { done in monitor.whenCaughtUp { done.resume() } }
        }
        await withCheckedContinuation { done in traceQueue.async { done.resume() } }
        haul.add("HAR", try await recorder.data())
        try haul.add(filesOf: directory.url)
        for request in other.requests { haul.add("the other origin", "\(request.target) \(request.headers)") }
        // The search is only meaningful if the sources are not empty.
        #expect(haul.count(of: "log") > 3 && haul.count(of: "event") > 3 && haul.count(of: "trace") > 0)
        let isSentOn = [.redirectedToOtherPort, .redirectedToOtherHost].contains(way)
        #expect(haul.count(of: "the other origin") == (isSentOn ? 1 : 0))
        if way != .unreachable { expectArrival(of: group.plants) }
        if way == .segments { #expect(haul.count(of: "file.bin.convoyjournal") == 1) }
        #expect(haul.leaks(of: group.plants) == [])
    }

    /// Expects that the server received the values intended for it.
    private func expectArrival(of plants: [Plant], sourceLocation: SourceLocation = #_sourceLocation) {
        let got = Haul()
        for request in server.requests("/file") { got.add("request", "\(request.target) \(request.headers)") }
        // Values for a proxy are not sent to servers.
        for plant in plants where plant.name != "Proxy-Authorization" {
            #expect(got.leaks(of: [plant]) != [], "\(plant.name)", sourceLocation: sourceLocation)
        }
    }

    @Test(arguments: groups)
    func `the search of this suite finds secrets that are shown on request`(group: Group) async throws {
        server.route("/file", .text("hello"))
        let open = HARRecorder(includesSecrets: true)
        manager.eventMonitors = [open.monitor]
        let operation = manager.enqueue(manager.makeOperation(request: group.request(server.url("/file"))))
        try await operation.finished()
        let found = Haul()
        found.add("HAR", try await open.data())
        found.add("curlCommand", operation.curlCommand(includingSecrets: true))
        for plant in group.plants where plant.name != "Proxy-Authorization" {
            #expect(found.leaks(of: [plant]) == ["HAR", "curlCommand"].map { "\(plant.name) in \($0)" })
        }
    }

    @Test(arguments: groups)
    func `a queue stores no secrets and rejects those in a URL`(group: Group) async throws {
        server.route("/file", .status(404))
        let queue = try DownloadQueue(directory: directory.url.appendingPathComponent("queue"), manager: manager)
        let request = group.request(server.url("/file"), hasItems: false)
        let operation = try await queue.enqueue(DownloadRequest(request, destination: directory.file("file.bin")))
        let refused = DownloadRequest(group.request(server.url("/file")), destination: directory.file("other.bin"))
        let error = await #expect(throws: DownloadQueueError.self) { try await queue.enqueue(refused) }
        haul.add("error", "\(error!) \(error!.localizedDescription)")
        try haul.add(filesOf: queue.directory)
        queue.start()
        try? await operation.finished()
        try await queue.flush()
        try haul.add(filesOf: queue.directory)
        for entry in queue.entries { haul.add("entry", "\(entry)") }
        #expect(haul.count(of: "queue.sqlite") == 2)
        expectArrival(of: group.fields)
        #expect(haul.leaks(of: group.plants) == [])
    }

    @Test(arguments: groups)
    func `the output of the tool contains no secrets`(group: Group) async throws {
        server.route("/file", inTurn: [.status(503), .redirect(to: target("localhost"))])
        let headers = group.fields.flatMap { ["-H", "\($0.name): \($0.value)"] }
        let address = try #require(group.request(server.url("/file")).url?.absoluteString)
        for options in [["--dry-run"], ["-v"], ["--json"], ["-v", "--har", "out.har", "--retry", "0"]] {
            let arguments = ["get", "-f", "-o", "out"] + options + headers + [address]
            let result = try await ToolProcess.run(arguments, in: directory.url)
            #expect(result.status == 0, "\(result.errors)")
            haul.add("\(options)", result.output + result.errors)
        }
        let unreachable = try await ToolProcess.run(
            ["get", "--retry", "0", "-o", "none"] + headers + [address.replacing("/file", with: "/none")], in: directory.url)
        haul.add("the tool's error", unreachable.output + unreachable.errors)
        try haul.add(filesOf: directory.url)
        for request in other.requests { haul.add("the other origin", "\(request.target) \(request.headers)") }
        #expect(unreachable.status != 0 && haul.count(of: "out.har") == 1 && haul.count(of: "the other origin") == 3)
        expectArrival(of: group.plants)
        #expect(haul.leaks(of: group.plants) == [])
    }
}
