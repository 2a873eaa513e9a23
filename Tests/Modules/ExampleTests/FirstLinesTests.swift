import Convoy
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// The first lines in the introductions of Alamofire, AsyncHTTPClient and `URLSession`, each as a comment above its
/// counterpart in Convoy. All of them run against httpbin.
@Suite(.serialized, .enabled(if: Httpbin.isInstalled, "needs \(Httpbin.installHint)"))
struct FirstLinesTests {
    struct Echo: Codable, Sendable {
        var args: [String: String]
        var headers: [String: String]
    }
    struct Posted: Codable, Sendable {
        var form: [String: String]
        var data: String
        var files: [String: String]
    }
    struct Login: Codable, Sendable, Equatable {
        var email: String
        var isTest: Bool
    }

    private static let httpbin = Result { try Httpbin() }
    private let api: HTTPRequestOperationManager
    private let directory: TemporaryDirectory

    init() throws {
        api = HTTPRequestOperationManager(baseURL: try Self.httpbin.get().url)
        api.completionQueue = DispatchQueue(label: "Convoy.FirstLines")
        directory = try TemporaryDirectory()
    }

    @Test func `requests return values, data, text and JSON`() async throws {
        // AF.request("https://httpbin.org/get").response { response in … }
        await withCheckedContinuation { done in
            api.get("get", success: { operation, object in done.resume() }, failure: { _, _ in done.resume() })
        }
        // let value = try await AF.request("…/get").serializingDecodable(Echo.self).value
        let value: Echo = try await api.get("get")
        // AF.request("…/get").responseDecodable(of: Echo.self) { response in … response.result … }
        await withCheckedContinuation { done in
            api.value(.get, "get", as: Echo.self) { result in done.resume() }
        }
        // AF.request("…/post", method: .post)
        try await api.post("post")
        // AF.request("…/put", method: .put); AF.request("…/delete", method: .delete)
        try await api.put("put")
        try await api.delete("delete")
        // let (data, response) = try await URLSession.shared.data(from: url)
        let operation = try await api.get(try #require(URL(string: "get", relativeTo: api.baseURL)))
        // try await AF.request("…/image/png").serializingData().value
        let data: Data = try await api.get("image/png")
        // try await AF.request("…/html").serializingString().value
        let text: String = try await api.get("html")
        // JSONSerialization.jsonObject(with: data)
        let json: JSON = try await api.get("json")
        // (response as? HTTPURLResponse)?.statusCode
        #expect(operation.statusCode == 200 && operation.response?.mimeType == "application/json")
        #expect(value.args.isEmpty && data.count > 1000 && text.contains("<html>"))
        #expect(json[try #require(JSONPointer("/slideshow/title"))] == .string("Sample Slide Show"))
    }

    @Test func `parameters, bodies and headers are sent`() async throws {
        let login = Login(email: "test@test.test", isTest: true)
        let (page, name): (Int, String?) = (3, nil)
        // AF.request("…/get", parameters: ["foo": "bar"])
        let echo: Echo = try await api.get("get", parameters: ["foo": "bar"])
        // AF.request("…/get", parameters: login, encoder: URLEncodedFormParameterEncoder.default)
        let encoded: Echo = try await api.get("get", parameters: .encoding(login))
        // components.queryItems = [URLQueryItem(name: "page", value: String(page))]
        let paged: Echo = try await api.get("get", parameters: ["page": page, "name": name])
        // AF.request("…/post", method: .post, parameters: ["foo": "bar"])
        let form: Posted = try await api.post("post", parameters: ["foo": "bar"])
        // AF.request("…/post", method: .post, parameters: login, encoder: JSONParameterEncoder.default)
        let body: Posted = try await api.post("post", body: login)
        // request.httpBody = Data("hello".utf8)
        let raw: Posted = try await api.post("post", body: Data("hello".utf8))
        // request.body = .bytes(ByteBuffer(string: "some data")); request.headers.add(name: "User-Agent", …)
        let typed: Posted = try await api.put(
            "put", body: Data("some data".utf8), headers: ["Content-Type": "text/plain", "User-Agent": "mine"])
        // AF.request("…/headers", headers: ["Accept": "application/json"])
        let accepting: Echo = try await api.get("get", headers: ["Accept": "application/json"])
        // AF.request("…/get", headers: [.authorization(bearerToken: "t")])
        api.requestSerializer.setAuthorizationHeader(bearerToken: "t")
        let authorized: Echo = try await api.get("get")
        // AF.request("…/basic-auth/u/p").authenticate(username: "u", password: "p")
        api.requestSerializer.setAuthorizationHeader(username: "u", password: "p")
        try await api.get("basic-auth/u/p")
        #expect(echo.args == ["foo": "bar"] && encoded.args == ["email": "test@test.test", "isTest": "1"])
        #expect(paged.args == ["page": "3"] && form.form == ["foo": "bar"] && raw.data == "hello")
        #expect(try JSONDecoder().decode(Login.self, from: Data(body.data.utf8)) == login)
        #expect(typed.data == "some data" && accepting.headers["Accept"] == "application/json")
        #expect(authorized.headers["Authorization"] == "Bearer t")
    }

    @Test func `files and forms are transferred with progress`() async throws {
        let file = directory.url.appendingPathComponent("image.png")
        // AF.download("…/image/png", to: destination).downloadProgress { print($0.fractionCompleted) }
        try await api.download("image/png", to: file, progress: .to { print($0.fractionCompleted ?? 0) })
        // AF.upload(fileURL, to: "…/post"); URLSession.shared.upload(for: request, fromFile: file)
        let uploaded: Posted = try await api.upload("post", from: .file(file))
        // AF.upload(data, to: "…/post"); URLSession.shared.upload(for: request, from: data)
        let sent: Posted = try await api.upload("post", from: .data(Data("hello".utf8)))
        // request.httpBodyStream = InputStream(data: …)
        let streamed: Posted = try await api.upload("post", from: .stream(InputStream(data: Data("hello".utf8)), length: 5))
        // AF.upload(multipartFormData: { form in form.append(fileURL, withName: "file") }, to: "…/post")
        let form: Posted = try await api.post("post", parameters: ["title": "Pig"]) { form in
            try form.appendPart(fileURL: file, name: "file")
        }
        // let download = AF.download(…); download.suspend(); download.resume(); download.cancel()
        let operation = try api.makeOperation(.get, "image/png")
        operation.responseSerializer = HTTPResponseSerializer()
        operation.pause()
        api.enqueue(operation)
        operation.resume()
        try await operation.finished()
        // for await progress in …downloadProgress()
        for await progress in operation.transferProgressUpdates { #expect(progress.bytesReceived > 0) }
        #expect(try Data(contentsOf: file).count == operation.responseData?.count)
        #expect(uploaded.data.hasPrefix("data:") && sent.data == "hello" && streamed.data == "hello")
        #expect(form.form == ["title": "Pig"] && form.files["file"] != nil)
    }

    @Test func `errors, timeouts, retries and dependencies work as shown`() async throws {
        // AF.request("…/status/404").validate()
        let error = await #expect(throws: HTTPError.self) { try await api.get("status/404") }
        // response.error?.responseCode
        #expect(error?.statusCode == 404)
        // .validate(statusCode: 200..<500)
        api.responseSerializer.acceptableStatusCodes = StatusCodeSet(200..<500)
        try await api.get("status/404")
        // .validate(contentType: ["application/json"])
        api.responseSerializer.acceptableContentTypes = ["application/json"]
        await #expect(throws: HTTPError.self) { try await api.get("html") }
        // httpClient.execute(request, timeout: .seconds(30)); request.timeoutInterval = 10
        try await api.get("get", timeout: 30)
        try await api.get("get", timeout: .idle(10))
        // AF.request("…", interceptor: RetryPolicy())
        api.retryPolicy = RetryPolicy(maximumRetryCount: 2)
        await #expect(throws: HTTPError.self) { try await api.get("status/503", headers: ["X-Try": "1"]) }
        // let decoder = JSONDecoder(); decoder.keyDecodingStrategy = .convertFromSnakeCase
        api.decoder.keyDecodingStrategy = .convertFromSnakeCase
        api.encoder.keyEncodingStrategy = .convertToSnakeCase
        let posted: Posted = try await api.post("post", body: Login(email: "a@b", isTest: false))
        #expect(posted.data.contains("is_test"))
        // withTaskGroup { … }
        let pages = try (1...3).map { try api.makeOperation(.get, "get", parameters: ["page": $0]) }
        #expect(try await api.enqueueBatch(of: pages).allSatisfy { $0.error == nil })
        // queue.addOperation(second); second.addDependency(first)
        let (first, second) = (try api.makeOperation(.get, "get"), try api.makeOperation(.get, "uuid"))
        second.addDependency(first)
        api.enqueue([second, first])
        try await second.finished()
        // task.cancel()
        let cancelled = Task { try await api.get("delay/10") }
        cancelled.cancel()
        await #expect(throws: URLError.self) { try await cancelled.value }
    }
}
