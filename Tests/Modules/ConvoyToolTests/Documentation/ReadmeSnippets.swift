import Convoy
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

// The code of the articles Calls, Limits, Retrying and Testing, so that it compiles and works. `ArticleTests` compares the two.

private func handlers(_ manager: HTTPRequestOperationManager) {
    // Article: Calls
    manager.get("users/1") { operation, object in
        print(operation.statusCode ?? 0, object ?? "nothing")
        exit(0)
    } failure: { operation, error in
        print(error)
        exit(1)
    }
    dispatchMain()
    // Article: end
}

private struct Item: Codable, Sendable { var name: String }

private func calls(_ manager: HTTPRequestOperationManager) async throws -> (Item, Data) {
    // Article: Calls
    try await manager.delete("items/1")
    let item: Item = try await manager.post("items", body: Item(name: "Nautilus"))
    let report: Data = try await manager.get("report", timeout: 30)
    manager.decoder.keyDecodingStrategy = .convertFromSnakeCase
    manager.requestSerializer.setAuthorizationHeader(bearerToken: "t0ken")
    manager.responseSerializer.acceptableStatusCodes = StatusCodeSet(200..<400)
    // Article: end
    return (item, report)
}

private struct User: Codable, Sendable { var name: String }

private func queue(_ manager: HTTPRequestOperationManager) {
    // Article: Limits
    let queue = RequestOperationQueue()
    queue.maxConcurrentOperationCount = 64
    queue.maxConcurrentOperationCountPerHost = 6
    queue.maximumLength = 10_000
    queue.overflowPolicy = .refuse
    manager.operationQueue = queue
    // Article: end
}

private func retry(_ manager: HTTPRequestOperationManager) {
    // Article: Retrying
    manager.retryPolicy = RetryPolicy(maximumRetryCount: 5)
    manager.totalTimeout = 120
    manager.coalescesIdenticalRequests = true
    // Article: end
}

private func network() throws {
    // Article: Retrying
    let network = NetworkReachabilityManager.shared
    network.reachabilityStatusChangeHandler = { status in print(status) }
    try network.startMonitoring()
    // Article: end
    network.stopMonitoring()
}

private func form(_ manager: HTTPRequestOperationManager, _ photo: URL) throws -> HTTPRequestOperation {
    // Article: Calls
    let upload = try manager.makeMultipartOperation("photos", parameters: ["title": "Dawn"]) { form in
        try form.appendPart(fileURL: photo, name: "photo")
    }
    upload.uploadProgressHandler = { _, sent, expected in print(sent, "of", expected ?? 0) }
    manager.enqueue(upload)
    // Article: end
    return upload
}

private func held(_ server: TestServer, _ manager: HTTPRequestOperationManager) async throws {
    // Article: Testing
    let gate = TestServer.Gate()
    server.route("GET", "/users/1", .json(["name": "Ada"]).held(by: gate))
    let request = manager.operation(.get, "users/1", as: User.self)
    manager.enqueue(request)
    #expect(!request.operation.isFinished)  // the response is held back
    gate.open()
    #expect(try await request.value().name == "Ada")
    // Article: end
}

private func behaviours(_ download: (URL) throws -> (Data, Int)) throws {
    // Article: Testing
    let server = try TestServer()
    for behaviour in ServerBehaviour.allCases where !behaviour.isUndetectable {
        let resource = server.route("/\(behaviour)", behaving: behaviour, size: 100_000, seed: 7)
        do {
            // Your client: it disconnects half-way, resumes, and gives up if it receives nothing.
            let (body, status) = try download(server.url(resource.path))
            #expect(resource.accepts(body, status: status), "\(behaviour)")
        } catch {
            #expect(!behaviour.isHonest, "\(behaviour): \(error)")
        }
    }
    // Article: end
}

@Suite struct ReadmeTests {
    private static let program = SwiftCompiler.root.appendingPathComponent("Sources/Examples/Readme/main.swift")

    @Test func `the README's code blocks match the program in Sources/Examples/Readme`() throws {
        let readme = try String(
            contentsOf: SwiftCompiler.root.appendingPathComponent("README.md"), encoding: .utf8)
        let blocks = readme.components(separatedBy: "```swift\n").dropFirst().compactMap {
            $0.components(separatedBy: "```").first
        }
        // The last block belongs in Package.swift.
        let manifest = try #require(blocks.last)
        #expect(manifest.hasPrefix("dependencies: [\n    .package("))
        #expect(try blocks.dropLast().joined(separator: "\n") == String(contentsOf: Self.program, encoding: .utf8))
    }

    @Test func `every link and picture of the README is a file`() throws {
        let readme = try String(
            contentsOf: SwiftCompiler.root.appendingPathComponent("README.md"), encoding: .utf8)
        let links = readme.matches(of: #/\]\(([^)#]+)|(?:src|srcset)="([^"]+)"/#).compactMap { $0.output.1 ?? $0.output.2 }
            .filter { !$0.hasPrefix("https://") }
        #expect(links.count > 40)
        for link in links {
            let file = SwiftCompiler.root.appendingPathComponent(String(link))
            #expect(FileManager.default.fileExists(atPath: file.path), "\(link)")
        }
    }

    @Test func `the code of the articles Calls, Limits and Retrying works`() async throws {
        let server = try TestServer()
        server.route("DELETE", "/v1/items/1", .status(204))
        server.route("POST", "/v1/items", .json(["name": "Nautilus"], status: 201))
        server.route("GET", "/v1/report", .text("report"))
        let manager = HTTPRequestOperationManager(baseURL: server.url("/v1/"))
        manager.completionQueue = DispatchQueue(label: "app.network")

        queue(manager)
        retry(manager)
        try network()
        let (item, report) = try await calls(manager)
        #expect(item.name == "Nautilus" && report == Data("report".utf8))
    }

    @Test func `the code of the article Testing works`() async throws {
        let server = try TestServer()
        try await held(server, HTTPRequestOperationManager(baseURL: server.url))
    }

    @Test(.enabled(if: SwiftCompiler.isInstalled, "swiftc is not installed"))
    func `the README's program compiles with the other manager`() throws {
        let source = try String(contentsOf: Self.program, encoding: .utf8)
        let changed = source.replacing("HTTPRequestOperationManager", with: "HTTPSessionManager")
        #expect(changed != source)
        #expect(try SwiftCompiler.diagnostics(of: changed).isEmpty)
    }
}
