import ConvoyOperations
import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The result of a request.
struct Outcome: CustomStringConvertible {
    let status: Int?
    let body: String
    let error: URLError?

    /// Sends a GET request with an operation, and waits for it.
    init(of url: URL, _ configure: (inout ConnectionConfiguration) throws -> Void = { _ in }) async rethrows {
        var request = URLRequest(url: url)
        request.timeoutInterval = 30
        let operation = HTTPRequestOperation(request: request)
        var configuration = operation.connectionConfiguration
        try configure(&configuration)
        operation.connectionConfiguration = configuration
        try? await operation.finished()
        status = operation.response?.statusCode
        body = String(decoding: operation.responseData ?? Data(), as: UTF8.self)
        error = operation.error as? URLError
    }

    /// The reason why the server was not trusted.
    var reason: ServerTrustFailure.Reason? { error?.serverTrustFailure?.reason }

    /// Returns whether the server was trusted or refused as expected, with the error code for the reason.
    func isRight(_ expected: ServerTrustFailure.Reason?) -> Bool {
        guard let expected else { return error == nil && status == 200 }
        let code: URLError.Code =
            switch expected {
            case .expired: .serverCertificateHasBadDate
            case .notYetValid: .serverCertificateNotYetValid
            case .unknownRoot: .serverCertificateHasUnknownRoot
            case .unusablePolicy: .secureConnectionFailed
            default: .serverCertificateUntrusted
            }
        return status == nil && error?.code == code && reason == expected
    }

    var description: String {
        error.map { "\($0.code.rawValue) \(reason.map { "\($0)" } ?? "") \($0.localizedDescription)" }
            ?? "status \(status ?? 0)"
    }
}
