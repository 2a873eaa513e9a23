import ConvoyOperations
import ConvoySession
import Foundation

/// The interchangeable managers, to which the same tests apply.
enum ManagerKind: CaseIterable {
    case operations, session

    /// Returns a manager that shares no cookies or credentials with others, and whose handlers do not need the main
    /// queue.
    func make(
        _ baseURL: URL? = nil, completionQueue: DispatchQueue? = DispatchQueue(label: "Convoy.Behaviour")
    ) -> any HTTPManager {
        switch self {
        case .operations: HTTPRequestOperationManager(baseURL: baseURL, completionQueue: completionQueue)
        case .session:
            HTTPSessionManager(baseURL: baseURL, configuration: .ephemeral, completionQueue: completionQueue)
        }
    }
}

/// The forms in which a request can be written.
enum RequestForm: CaseIterable { case handlers, awaited, operations }

/// A manager and the form in which it is called.
struct Way: Sendable, CustomStringConvertible {
    let manager: ManagerKind
    let form: RequestForm

    static let all = ManagerKind.allCases.flatMap { manager in
        RequestForm.allCases.map { Way(manager: manager, form: $0) }
    }

    var description: String { "\(manager), \(form)" }
}
