import ConvoyOperations
import ConvoySession
import Foundation

/// The managers that can take each other's place: the same tests hold for all.
enum ManagerKind: CaseIterable {
    case operations, session

    /// A manager that shares no cookies and no credentials with another, and whose handlers need no main queue.
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

/// One of the managers, asked in one of the forms.
struct Way: Sendable, CustomStringConvertible {
    let manager: ManagerKind
    let form: RequestForm

    static let all = ManagerKind.allCases.flatMap { manager in
        RequestForm.allCases.map { Way(manager: manager, form: $0) }
    }

    var description: String { "\(manager), \(form)" }
}
