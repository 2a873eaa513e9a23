import Convoy
import Foundation

struct Echo: Codable, Sendable {
    var args: [String: String]
}

let service = CommandLine.arguments.dropFirst().first ?? "https://httpbin.org/"
let api = HTTPRequestOperationManager(baseURL: URL(string: service))
let echo: Echo = try await api.get("get", parameters: ["page": 2])
print(echo.args)

struct Login: Codable, Sendable {
    var form: [String: String]
}
struct Profile: Codable, Sendable {
    var token: String
}
let login = api.operation(.post, "anything", parameters: ["token": "t0ken"], as: Login.self)
let profile = api.operation(.get, "bearer", as: Profile.self)
profile.depend(on: login) { login, request in
    request.setValue("Bearer \(login.form["token"] ?? "")", forHTTPHeaderField: "Authorization")
}
api.enqueue([login, profile])
print("chain:", try await profile.value().token)

let images = try ["png", "jpeg", "svg"].map { try api.makeOperation(.get, "image/\($0)") }
for image in images { image.responseSerializer = HTTPResponseSerializer() }
let finished = try await api.enqueueBatch(of: images)
print("batch:", finished.filter { $0.error == nil }.count, "of", finished.count)

let letters = try api.makeDownload("range/100000", to: URL(fileURLWithPath: "letters.txt"))
letters.existingFilePolicy = .replace
api.enqueue(letters)
letters.pause()
letters.resume()
try await letters.finished()

let file = URL(fileURLWithPath: "pig.png")
try await api.download("image/png", to: file, existing: .replace, progress: .to { _ = $0.fractionCompleted })
print("download:", try Data(contentsOf: file).count, "bytes")

let upload = try await api.upload("put", method: .put, from: .file(file))
print("upload:", upload.statusCode ?? 0)

struct SearchClient: Sendable {
    private let manager: HTTPRequestOperationManager

    init(url: URL?) {
        manager = HTTPRequestOperationManager(baseURL: url)
        manager.retryPolicy = RetryPolicy(maximumRetryCount: 3)
        manager.totalTimeout = 30
    }

    func search(_ text: String) async throws -> Echo {
        try await manager.get("get", parameters: ["q": text])
    }
}
do {
    let found = try await SearchClient(url: URL(string: service)).search("emma")
    print("client:", found.args)
    try await api.delete("status/404")
} catch let error as HTTPError {
    print("error:", error.statusCode ?? 0)
}
