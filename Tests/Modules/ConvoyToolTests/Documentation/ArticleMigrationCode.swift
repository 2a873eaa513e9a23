import Convoy
import Foundation
import FoundationNetworking

// The code of the articles for users of other libraries; see ArticleCode.swift.

extension ArticleCode {
    // MARK: From AFNetworking

    static func afNetworking(_ manager: HTTPRequestOperationManager) throws -> HTTPRequestOperation {
        // Article: FromAFNetworking
        // manager.GET("users", parameters: …, success: …, failure: …)
        manager.get(
            "users", parameters: ["page": 2],
            success: { operation, object in print(object ?? "nothing") },
            failure: { operation, error in print(error.localizedDescription) })

        // operation.setDownloadProgressBlock { … }
        let operation = try manager.makeOperation(.get, "files/1")
        operation.downloadProgressHandler = { bytes, total, expected in print(total, "of", expected ?? 0) }
        manager.enqueue(operation)
        // Article: end
        return operation
    }

    // MARK: From Alamofire

    static func alamofire(_ file: URL, _ photo: URL, _ base: URL) async throws {
        let manager = HTTPRequestOperationManager(baseURL: base)
        // Article: FromAlamofire
        // AF.request("users/1").serializingDecodable(User.self).value
        let user: User = try await manager.get("users/1")

        // AF.request("users", method: .post, parameters: user, encoder: JSONParameterEncoder.default)
        let created: User = try await manager.post("users", body: user)

        // AF.download("film", to: destination)
        try await manager.download("film", to: file)

        // AF.upload(multipartFormData: { $0.append(photo, withName: "photo") }, to: "photos")
        try await manager.post("photos", constructingBody: { try $0.appendPart(fileURL: photo, name: "photo") })
        // Article: end
        print(created)
    }

    static func alamofireHandler(_ manager: HTTPRequestOperationManager) -> HTTPRequestOperation {
        // Article: FromAlamofire
        // AF.request("users/1").responseDecodable(of: User.self) { response in … }
        let request = manager.value(.get, "users/1", as: User.self) { result in
            switch result {
            case .success(let user): print(user.name)
            case .failure(let error): print(error)
            }
        }
        // Article: end
        return request
    }

    // Article: FromAlamofire
    final class TokenManager: HTTPRequestOperationManager, @unchecked Sendable {
        override func makeOperation(request: URLRequest) -> HTTPRequestOperation {
            var request = request
            request.setValue("Bearer t0ken", forHTTPHeaderField: "Authorization")
            return super.makeOperation(request: request)
        }
    }
    // Article: end

    // MARK: From URLSession

    static func urlSession(_ url: URL, _ file: URL, _ body: Data) async throws -> HTTPRequestOperation {
        // Article: FromURLSession
        let manager = HTTPRequestOperationManager()

        // let (data, response) = try await URLSession.shared.data(from: url)
        let data: Data = try await manager.get(url)

        // let (data, response) = try await URLSession.shared.upload(for: request, from: body)
        let operation = try await manager.upload(url, method: .put, from: .data(body))
        print(operation.statusCode ?? 0, operation.responseData?.count ?? 0)

        // let (location, response) = try await URLSession.shared.download(from: url)
        try await manager.download(url, to: file)
        // Article: end
        print(data.count)
        return operation
    }

    static func urlRequest(_ request: URLRequest) async throws -> HTTPRequestOperation {
        // Article: FromURLSession
        let operation = HTTPRequestOperation(request: request)
        try await operation.finished()
        print(operation.response?.value(forHTTPHeaderField: "Content-Type") ?? "no type", operation.responseString ?? "")
        // Article: end
        return operation
    }
}
