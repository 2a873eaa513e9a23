import ConvoyTransport
import Foundation
import FoundationNetworking

/// One try of an operation. It reports its end, with its number, to the operation.
struct OperationTry: Sendable {
    let operation: URLConnectionOperation
    let number: Lifecycle.TryNumber

    /// The connection was cancelled and has stopped.
    func transferDidStop() { operation.transferDidStop(number) }

    /// What has arrived is unusable.
    func transferMustRepeat() { operation.transferMustRepeat(number) }

    /// Whether the request is retried after this response; if so, the try has ended.
    func retriesInstead(of head: ResponseHead?) -> Bool { operation.retriesInstead(of: head, number) }

    /// Ends the try with the result of its transfer.
    func conclude(data: Data?, head: ResponseHead?, error: (any Error)?) {
        operation.conclude(number, data: data, head: head, error: error)
    }
}
