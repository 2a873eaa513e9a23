import Convoy
import Foundation

/// Logs in, uses the token to get a profile, and fetches the report that the profile names: three operations that are
/// enqueued together, each prepared with the result of the previous one.
enum ChainDemo {
    static func run(_ server: DemoServer, _ stage: DemoStage) -> Bool {
        stage.title("A chain: log in, get the profile with the token, fetch the report that it names")
        do {
            return try chain(server, stage)
        } catch {
            return stage.check(ErrorText.line(for: error), false)
        }
    }

    private static func chain(_ server: DemoServer, _ stage: DemoStage) throws -> Bool {
        let manager = HTTPRequestOperationManager(baseURL: server.server.url)
        manager.completionQueue = DispatchQueue(label: "convoy.demo")
        manager.completionGroup = DispatchGroup()

        let login = try manager.makeOperation(.post, "login", parameters: ["user": "ada"])
        let profile = try manager.makeOperation(.get, "me")
        profile.addDependency(login)
        profile.prepare = { request in
            request.setValue("Bearer \(try text("token", of: login))", forHTTPHeaderField: "Authorization")
        }
        let report = try manager.makeOperation(.get, "me")
        report.addDependency(profile)
        report.prepare = { request in
            request.url = try manager.url(for: try text("report", of: profile))
            request.setValue("Bearer \(try text("token", of: login))", forHTTPHeaderField: "Authorization")
        }
        let operations = [(login, "token"), (profile, "report"), (report, "title")]
        for (operation, key) in operations {
            operation.setCompletionHandler(
                success: { operation, _ in
                    let value = (try? text(key, of: operation)) ?? "nothing"
                    stage.step("\(describe(operation)): \(key) \"\(Printable.line(value))\"")
                },
                failure: { operation, error in stage.step("\(describe(operation)): \(ErrorText.line(for: error))") })
        }
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
            "the report has the expected title", (try? text("title", of: report)) == "Notes on the engine")
        return isOrdered && isRight
    }

    private static func describe(_ operation: HTTPRequestOperation) -> String {
        let path = operation.request.url?.path ?? ""
        return "\(operation.request.httpMethod ?? "GET") \(path) \(operation.statusCode.map(String.init) ?? "-")"
    }

    /// The text under a key of an operation's JSON response.
    private static func text(_ key: String, of operation: HTTPRequestOperation) throws -> String {
        guard let object = operation.responseObject as? [String: Any], let text = object[key] as? String else {
            throw ToolError.failure("the response has no \"\(key)\"")
        }
        return text
    }
}
