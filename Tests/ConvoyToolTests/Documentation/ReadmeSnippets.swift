import Convoy
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

// The code of README.md, and of the articles Calls, Limits, Retrying and Testing, so that it compiles and works. `ReadmeTests`
// and `ArticleTests` compare the two.

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

private func pause(_ manager: HTTPRequestOperationManager, _ url: URL, _ file: URL) async throws {
    // README: pause
    let download = HTTPRequestOperation(request: URLRequest(url: url))
    download.outputStream = FileOutputStream(fileURL: file)
    manager.enqueue(download)

    download.pause()
    download.resume()
    try await download.finished()
    // README: end
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

private struct Login: Codable, Sendable { var token: String }
private struct User: Codable, Sendable { var name: String }

private func front(_ manager: HTTPRequestOperationManager, _ file: URL) async throws -> (User, User) {
    // README: front
    let user: User = try await manager.get("users/1")

    let login = manager.operation(.post, "login", parameters: ["user": "ada"], as: Login.self)
    let profile = manager.operation(.get, "me", as: User.self)
    profile.depend(on: login) { login, request in
        request.setValue("Bearer \(login.token)", forHTTPHeaderField: "Authorization")
    }
    manager.enqueue([login, profile])
    let me = try await profile.value()

    let film = try manager.makeDownload("film", to: file)  // goes on where a killed process stopped
    manager.enqueue(film)
    film.pause()
    film.resume()
    try await film.finished()
    // README: end
    return (user, me)
}

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

private func downloads(_ manager: HTTPRequestOperationManager, _ file: URL, _ checksum: Checksum?) async throws {
    // README: downloads
    let download = try manager.makeDownload("archive", to: file)
    download.checksum = checksum
    download.segmentCount = 4
    manager.enqueue(download)
    for await progress in download.downloadProgressUpdates {
        print(progress.bytesReceived, progress.timeRemaining ?? .infinity)
    }
    try await download.finished()
    // README: end
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
    @Test func `the code of the README is the code that is tested here`() throws {
        let here = URL(fileURLWithPath: #filePath)
        let root = SwiftCompiler.root
        let readme = try String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
        var regions: [[Substring]] = []
        var isInside = false
        let source = try String(contentsOf: here, encoding: .utf8)
        for line in source.split(separator: "\n", omittingEmptySubsequences: false) {
            let text = line.drop { $0 == " " }
            if text.hasPrefix("// README: end") {
                isInside = false
            } else if text.hasPrefix("// README: ") {
                isInside = true
                regions.append([])
            } else if isInside {
                regions[regions.count - 1].append(line)
            }
        }
        #expect(regions.count == 3)
        for region in regions {
            let indent = region.first?.prefix { $0 == " " }.count ?? 0
            let code = region.map { $0.dropFirst(min(indent, $0.count)) }.joined(separator: "\n")
            #expect(readme.contains(code), "missing in the README:\n\(code)")
        }
    }

    @Test func `the code of the README works`() async throws {
        let server = try TestServer()
        let scratch = try Scratch()
        server.route("DELETE", "/v1/items/1", .status(204))
        server.route("POST", "/v1/items", .json(["name": "Nautilus"], status: 201))
        server.route("GET", "/v1/report", .text("report"))
        server.servePattern(count: 1_000_000, at: "/file", etag: "\"1\"")
        let manager = HTTPRequestOperationManager(baseURL: server.url("/v1/"))
        manager.completionQueue = DispatchQueue(label: "app.network")

        queue(manager)
        retry(manager)
        try network()
        let (item, report) = try await calls(manager)
        #expect(item.name == "Nautilus" && report == Data("report".utf8))

        let file = scratch.url.appendingPathComponent("file")
        try await pause(manager, server.url("/file"), file)
        server.serve(PatternBytes.data(count: 100_000), at: "/v1/archive", etag: "\"1\"")
        let archive = file.appendingPathExtension("archive")
        try await downloads(manager, archive, nil)
        #expect(try Data(contentsOf: archive) == PatternBytes.data(count: 100_000))
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: 1_000_000))
    }

    @Test func `the first lines of the README work`() async throws {
        let server = try TestServer()
        let scratch = try Scratch()
        server.route("GET", "/users/1", .json(["name": "Grace"]))
        server.route("POST", "/login", .json(["token": "t0ken"]))
        server.route("GET", "/me", .json(["name": "Ada"]))
        server.servePattern(count: 1_000_000, at: "/film", etag: "\"1\"")
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        let file = scratch.url.appendingPathComponent("film")
        let (user, me) = try await front(manager, file)
        #expect(user.name == "Grace" && me.name == "Ada")
        try await held(server, manager)
        #expect(server.requests("/me").first?.headers["Authorization"] == "Bearer t0ken")
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: 1_000_000))
    }

    @Test(.enabled(if: SwiftCompiler.isInstalled, "swiftc is not installed"))
    func `the README's program takes the other manager by the name of its type`() throws {
        let root = SwiftCompiler.root
        let source = try String(
            contentsOf: root.appendingPathComponent("Sources/Examples/Readme/main.swift"), encoding: .utf8)
        let changed = source.replacing("HTTPRequestOperationManager", with: "HTTPSessionManager")
        let lines = changed.split(separator: "\n").filter { !source.contains($0) }
        #expect(lines.count == 1)
        let readme = try String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
        #expect(readme.contains("```swift\n\(lines.joined())\n```"))
        #expect(try SwiftCompiler.diagnostics(of: changed).isEmpty)
    }
}
