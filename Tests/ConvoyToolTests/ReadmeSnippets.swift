import Convoy
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

// The code of README.md, so that it compiles and works. `ReadmeTests` compares the two.

private func handlers(_ manager: HTTPRequestOperationManager) {
    // README: handlers
    manager.get("users/1") { operation, object in
        print(operation.statusCode ?? 0, object ?? "nothing")
        exit(0)
    } failure: { operation, error in
        print(error)
        exit(1)
    }
    dispatchMain()
    // README: end
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
    // README: calls
    try await manager.delete("items/1")
    let item: Item = try await manager.post("items", body: Item(name: "Nautilus"))
    let report: Data = try await manager.get("report", timeout: 30)
    manager.decoder.keyDecodingStrategy = .convertFromSnakeCase
    manager.requestSerializer.setAuthorizationHeader(bearerToken: "t0ken")
    manager.responseSerializer.acceptableStatusCodes = StatusCodeSet(200..<400)
    // README: end
    return (item, report)
}

private struct Login: Codable, Sendable { var token: String }
private struct User: Codable, Sendable { var name: String }

private func typed(_ manager: HTTPRequestOperationManager) async throws -> User {
    // README: typed
    let login = manager.operation(.post, "login", parameters: ["user": "ada"], as: Login.self)
    let profile = manager.operation(.get, "me", as: User.self)
    profile.depend(on: login) { login, request in
        request.setValue("Bearer \(login.token)", forHTTPHeaderField: "Authorization")
    }
    manager.enqueue([login, profile])
    let user = try await profile.value()
    // README: end
    return user
}

private func stream(_ manager: HTTPRequestOperationManager) async throws {
    // README: stream
    let (bytes, _) = try await manager.bytes(.get, "log")
    for try await line in bytes.lines {
        if line.isEmpty { break }
        print(line)
    }
    // README: end
}

private func realTime(_ manager: HTTPRequestOperationManager) async throws -> Subscription<Item> {
    // README: events
    for try await event in try manager.events("prices") {
        print(event.data)
        if event.type == "last" { break }
    }

    let subscription = manager.subscribe("items/7", method: .get, as: Item.self) { subscription, change in
        print(subscription.value?.name ?? "", change)
    }
    // README: end
    return subscription
}

private func watch(_ manager: HTTPRequestOperationManager) -> HARRecorder {
    // README: watch
    let recorder = HARRecorder()
    manager.eventMonitors = [
        recorder.monitor,
        EventMonitor.logging(at: .info) { level, message, _ in print(level, message) },
    ]
    // README: end
    return recorder
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

private func network() throws {
    // README: network
    let network = NetworkReachabilityManager.shared
    network.reachabilityStatusChangeHandler = { status in print(status) }
    try network.startMonitoring()
    // README: end
    network.stopMonitoring()
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

private struct Trust {
    let presentKey: String
    let nextKey: String
    let expiry: Date
    let company: URL
    let certificate: URL
    let key: URL

    func use(_ manager: HTTPRequestOperationManager) async throws {
        // README: trust
        // Keys as "sha256/" and base64. The next one is kept for the day when the present one must go.
        var policy = try SecurityPolicy(publicKeyPins: [presentKey], backupPins: [nextKey], pinsExpire: expiry)
        policy.certificateAuthorities = .systemAnd(try Certificate.certificates(contentsOf: company))
        try manager.setSecurityPolicy(policy)
        manager.connectionConfiguration.clientIdentity = ClientIdentity(certificate: certificate, key: key)
        do {
            let item: Item = try await manager.get("items/1")
            print(item.name)
        } catch let error as URLError {
            guard let failure = error.serverTrustFailure else { throw error }
            print(failure.reason, failure)  // why, and what the server has shown; nothing of the request was sent
        }
        // README: end
    }
}

private struct Grant: Decodable, Sendable {
    let token: String
    let seconds: Double
    let refreshToken: String?
}

private func credentials(
    _ manager: HTTPRequestOperationManager, _ service: HTTPRequestOperationManager, _ password: String
) throws {
    // README: credentials
    manager.credential = URLCredential(user: "ada", password: password, persistence: .forSession)
    manager.authenticator = Authenticator { old in  // for tokens: called once, however many operations get a 401
        let grant: Grant = try await service.post("token", parameters: ["refresh_token": old?.refreshToken])
        return AccessToken(grant.token, expiresIn: grant.seconds, refreshToken: grant.refreshToken)
    }
    manager.connectionConfiguration.addressGuard = .publicAddresses  // for URLs that others have chosen
    manager.connectionConfiguration.proxy = .proxy(try Proxy("socks5h://localhost:9050"))
    // README: end
}

private func stores(_ manager: HTTPRequestOperationManager, _ state: URL) throws {
    // README: stores
    manager.cookieStore = try CookieStore(file: state.appendingPathComponent("cookies.db"))
    manager.cache = try HTTPCache(directory: state.appendingPathComponent("responses"), diskCapacity: 512 << 20)
    // README: end
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

private func session(
    _ service: String, _ request: URLRequest, _ file: URL, _ note: URL, isLeaving: Bool
) async throws -> SessionDownloadTask {
    // README: session
    let api = HTTPSessionManager(baseURL: URL(string: service))
    // README: end
    api.completionQueue = DispatchQueue(label: "app.network")
    // README: task
    api.taskDidCompleteHandler = { task, error in
        print(task, error?.localizedDescription ?? "no error")
    }
    let download = api.downloadTask(with: request, destination: { _, _ in file }) { response, file, error in
        print(file?.path ?? "no file")
    }
    download.resume()
    if isLeaving, let rest = await download.cancelProducingResumeData() {
        try rest.data.write(to: note)  // for downloadTask(withResumeData:destination:completionHandler:)
    }
    // README: end
    return download
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
        #expect(regions.count == 18)
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
        try stores(manager, scratch.url)
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

    @Test func `what the README says of values, streams and watching works`() async throws {
        let server = try TestServer()
        server.route("POST", "/login", .json(["token": "t0ken"]))
        server.route("GET", "/me", .json(["name": "Ada"]))
        server.route("GET", "/log", .text("first\n\nsecond"))
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "app.network")
        let recorder = watch(manager)
        #expect(try await typed(manager).name == "Ada")
        #expect(server.requests("/me").first?.headers["Authorization"] == "Bearer t0ken")
        try await stream(manager)
        #expect(await recorder.log().entries.count >= 2)
    }

    @Test func `what the README says of events and documents works`() async throws {
        let server = try TestServer()
        server.route("GET", "/prices", .chunked(["event: last\ndata: 1\n\n"], type: "text/event-stream"))
        server.route(
            "GET", "/items/7", .chunked(["event: put\ndata: {\"name\": \"Nautilus\"}\n\n"], type: "text/event-stream"))
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "app.network")
        let subscription = try await realTime(manager)
        for try await item in subscription.values {
            #expect(item.name == "Nautilus")
            break
        }
        subscription.close()
    }

    @Test func `the README's task brings its file`() async throws {
        let server = try TestServer()
        let scratch = try Scratch()
        server.serve(PatternBytes.data(count: 100_000), at: "/file", etag: "\"1\"")
        let file = scratch.url.appendingPathComponent("file")
        let task = try await session(
            server.url.absoluteString, URLRequest(url: server.url("/file")), file,
            scratch.url.appendingPathComponent("note"), isLeaving: false)
        try await task.finished()
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: 100_000) && task.fileURL == file)
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

    @Test func `the README's server gets the request only if it has one of the keys`() async throws {
        let scratch = try Scratch()
        let root = try TestCertificate.root()
        let present = try root.issue(.server("localhost"))
        let next = try present.replacingKey()
        let files = try root.issue(.client("ada")).write(to: scratch.url, name: "ada")
        let trust = Trust(
            presentKey: present.publicKeyPin, nextKey: next.publicKeyPin, expiry: Date(timeIntervalSinceNow: 3600),
            company: try root.write(to: scratch.url, name: "company").certificate, certificate: files.certificate,
            key: files.key)
        for (certificate, isTrusted) in [(present, true), (next, true), (try present.replacingKey(), false)] {
            var tls = TestServer.TLS(certificate)
            tls.clientCertificates = .required
            tls.clientAuthorities = [root]
            let server = try TestServer(tls: tls)
            server.route("GET", "/items/1", .json(["name": "Nautilus"]))
            let manager = HTTPRequestOperationManager(baseURL: server.url("/", host: "localhost"))
            manager.completionQueue = DispatchQueue(label: "app.network")
            try await trust.use(manager)
            #expect(server.requests.map { $0.tls?.clientCertificateSubject } == (isTrusted ? ["CN=ada"] : []))
            #expect(isTrusted || server.statistics.plaintextByteCount == 0)
        }
    }
}
