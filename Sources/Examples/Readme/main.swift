import Convoy
import Foundation

let service = CommandLine.arguments.dropFirst().first ?? "https://httpbin.org/"
let api = HTTPRequestOperationManager(baseURL: URL(string: service))

struct Echo: Codable, Sendable {
    var args: [String: String]
}
let page = 2
let echo: Echo = try await api.get("get", parameters: ["page": page, "tag": Optional<String>.none])
print(echo.args)

let file = URL(fileURLWithPath: "pig.png")
try await api.download("image/png", to: file, existing: .replace, progress: .to { _ = $0.fractionCompleted })
print(try Data(contentsOf: file).count, "bytes")

do {
    try await api.delete("status/404")
} catch let error as HTTPError {
    print(error.localizedDescription)
}

struct Login: Codable, Sendable {
    var form: [String: String]
}
let login = try api.makeOperation(.post, "anything", parameters: ["token": "t0ken"])
login.responseSerializer = DecodableResponseSerializer<Login>()
let profile = try api.makeOperation(.get, "bearer")
profile.addDependency(login)
profile.dependencyFailurePolicy = .cancel
profile.prepare = { request in
    let token = (login.responseObject as? Login)?.form["token"] ?? ""
    request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
}
api.enqueue([profile, login])
try await profile.finished()
print("chain:", profile.statusCode ?? 0)

let images = try ["png", "jpeg", "svg"].map { try api.makeOperation(.get, "image/\($0)") }
for image in images { image.responseSerializer = HTTPResponseSerializer() }
let finished = try await api.enqueueBatch(of: images)
print("batch:", finished.filter { $0.error == nil }.count, "of", finished.count)
