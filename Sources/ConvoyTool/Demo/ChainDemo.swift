import Convoy
import Foundation

/// Logs in, uses the token to get a profile, and fetches the report that the profile names: three operations that are
/// enqueued together, each prepared with the result of the previous one.
enum ChainDemo {
    private struct Login: Decodable { let token: String }
    private struct Profile: Decodable { let report: String }
    private struct Report: Decodable { let title: String }

    static func run(_ server: DemoServer, _ stage: DemoStage) -> Bool {
        stage.title("A chain: log in, get the profile with the token, fetch the report that it names")
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        manager.completionQueue = DispatchQueue(label: "convoy.demo")
        manager.completionGroup = DispatchGroup()

        let login = manager.operation(.post, "login", parameters: ["user": "ada"], as: Login.self)
        let profile = manager.operation(.get, "me", as: Profile.self)
        profile.depend(on: login) { login, request in
            request.setValue("Bearer \(login.token)", forHTTPHeaderField: "Authorization")
        }
        let report = manager.operation(.get, "me", as: Report.self)
        report.depend(on: login, profile) { login, profile, request in
            request.url = try manager.url(for: profile.report)
            request.setValue("Bearer \(login.token)", forHTTPHeaderField: "Authorization")
        }
        tell(stage, login, "token") { $0.token }
        tell(stage, profile, "report") { $0.report }
        tell(stage, report, "title") { $0.title }
        // In reverse: the dependencies determine the order.
        manager.enqueue([report, profile, login])
        Interruption.shared.onInterrupt { manager.operationQueue.cancelAllOperations() }
        guard manager.completionGroup?.wait(timeout: .now() + DemoStage.patience) == .success else {
            return stage.check("the chain has finished", false)
        }
        let paths = server.server.requests.map(\.path)
        let isOrdered = stage.check(
            "enqueued last first, sent in order: \(paths.map { Printable.line($0) }.joined(separator: ", "))",
            paths == ["/login", "/me", DemoServer.reportPath])
        let isRight = stage.check(
            "the report has the expected title", (try? report.result?.get().title) == "Notes on the engine")
        return isOrdered && isRight
    }

    private static func describe(_ operation: HTTPRequestOperation) -> String {
        let path = operation.request.url?.path ?? ""
        return "\(operation.request.httpMethod ?? "GET") \(path) \(operation.statusCode.map(String.init) ?? "-")"
    }

    /// Tells what an operation has brought when it has finished.
    private static func tell<Value>(
        _ stage: DemoStage, _ typed: TypedOperation<Value>, _ key: String, _ text: @escaping @Sendable (Value) -> String
    ) {
        let operation = typed.operation
        typed.setCompletionHandler { [weak operation] result in
            guard let operation else { return }
            switch result {
            case .success(let value):
                stage.step("\(describe(operation)): \(key) \"\(Printable.line(text(value)))\"")
            case .failure(let error): stage.step("\(describe(operation)): \(ErrorText.line(for: error))")
            }
        }
    }
}
