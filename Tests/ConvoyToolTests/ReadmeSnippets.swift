import Convoy
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

// The code of README.md, so that it compiles and works. `ReadmeTests` compares the two.

private func madeManager() -> HTTPRequestOperationManager {
    // README: manager
    let manager = HTTPRequestOperationManager(baseURL: URL(string: "https://api.example.com/v1/"))
    manager.completionQueue = DispatchQueue(label: "app.network")
    // README: end
    return manager
}

private func chain(_ manager: HTTPRequestOperationManager) throws -> HTTPRequestOperation {
    // README: chain
    let login = try manager.makeOperation(.post, "login", parameters: ["user": "ada"])
    let profile = try manager.makeOperation(.get, "me")
    profile.addDependency(login)
    profile.dependencyFailurePolicy = .cancel
    profile.prepare = { request in
        let answer = login.responseObject as? [String: Any]
        request.setValue("Bearer \(answer?["token"] ?? "")", forHTTPHeaderField: "Authorization")
    }
    profile.setCompletionHandler(
        success: { operation, object in print("profile:", object ?? "nothing") },
        failure: { operation, error in print("no profile:", error) })
    manager.enqueue([login, profile])
    // README: end
    return profile
}

private func batch(_ manager: HTTPRequestOperationManager) throws -> [Operation] {
    // README: batch
    let images = try (1...24).map { try manager.makeOperation(.get, "images/\($0).png") }
    for image in images { image.responseSerializer = HTTPResponseSerializer() }
    let batch = URLConnectionOperation.batch(
        of: images, completionQueue: manager.completionQueue,
        progress: { finished, total in print("\(finished) of \(total)") },
        completion: { operations in print(operations.filter { $0.error == nil }.count, "images arrived") })
    manager.enqueue(batch)
    // README: end
    return batch
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

private func async(_ manager: HTTPRequestOperationManager) async throws -> (User, User) {
    // README: async
    let user: User = try await manager.get("users/1")
    let created = try await manager.post("users", parameters: ["name": "Grace"], as: User.self)
    // README: end
    return (user, created)
}

private func queue(_ manager: HTTPRequestOperationManager) {
    // README: queue
    let queue = RequestOperationQueue()
    queue.maxConcurrentOperationCount = 64
    queue.maxConcurrentOperationCountPerHost = 6
    queue.maximumLength = 10_000
    queue.overflowPolicy = .refuse
    manager.operationQueue = queue
    // README: end
}

private func retry(_ manager: HTTPRequestOperationManager) {
    // README: retry
    manager.retryPolicy = RetryPolicy(maximumRetryCount: 5)
    manager.totalTimeout = 120
    manager.coalescesIdenticalRequests = true
    // README: end
}

private func form(_ manager: HTTPRequestOperationManager, _ photo: URL) throws -> HTTPRequestOperation {
    // README: form
    let upload = try manager.makeMultipartOperation("photos", parameters: ["title": "Dawn"]) { form in
        try form.appendPart(fileURL: photo, name: "photo")
    }
    upload.uploadProgressHandler = { _, sent, expected in print(sent, "of", expected ?? 0) }
    manager.enqueue(upload)
    // README: end
    return upload
}

private func behaviours(_ download: (URL) throws -> (Data, Int)) throws {
    // README: behaviours
    let server = try TestServer()
    for behaviour in ServerBehaviour.allCases where !behaviour.isUndetectable {
        let resource = server.route("/\(behaviour)", behaving: behaviour, size: 100_000, seed: 7)
        do {
            // Your client: it breaks off in the middle and resumes, and gives up if nothing comes.
            let (body, status) = try download(server.url(resource.path))
            #expect(resource.accepts(body, status: status), "\(behaviour)")
        } catch {
            #expect(!behaviour.isHonest, "\(behaviour): \(error)")
        }
    }
    // README: end
}

// README: async
struct User: Codable, Sendable {
    var name: String
}
// README: end

@Suite struct ReadmeTests {
    @Test func `the code of the README is the code that is tested here`() throws {
        let here = URL(fileURLWithPath: #filePath)
        let root = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
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
        #expect(regions.count == 10)
        for region in regions {
            let indent = region.first?.prefix { $0 == " " }.count ?? 0
            let code = region.map { $0.dropFirst(min(indent, $0.count)) }.joined(separator: "\n")
            #expect(readme.contains(code), "missing in the README:\n\(code)")
        }
    }

    @Test func `the code of the README works`() async throws {
        #expect(madeManager().baseURL?.absoluteString == "https://api.example.com/v1/")
        let server = try TestServer()
        let scratch = try Scratch()
        server.route("POST", "/v1/login", .json(["token": "t0ken"]))
        server.route("GET", "/v1/me", .json(["name": "Ada"]))
        server.route("GET", "/v1/images/*", .bytes(Data([1, 2, 3]), type: "image/png"))
        server.route("GET", "/v1/users/1", .json(["name": "Ada"]))
        server.route("POST", "/v1/users", .json(["name": "Grace"], status: 201))
        server.servePattern(count: 1_000_000, at: "/file", etag: "\"1\"")
        let manager = HTTPRequestOperationManager(baseURL: server.url("/v1/"))
        manager.completionQueue = DispatchQueue(label: "app.network")

        queue(manager)
        retry(manager)
        try await chain(manager).finished()
        #expect(server.requests("/v1/me").first?.headers["Authorization"] == "Bearer t0ken")

        let members = try batch(manager)
        for case let operation as HTTPRequestOperation in members { try await operation.finished() }

        let file = scratch.url.appendingPathComponent("file")
        try await pause(manager, server.url("/file"), file)
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: 1_000_000))

        let users = try await async(manager)
        #expect([users.0.name, users.1.name] == ["Ada", "Grace"])
    }
}
