import ConvoyTransport
import Foundation
import FoundationNetworking

/// One try of an operation: tells the operation how it ended, and which try that was.
struct OperationTry: Sendable {
    let operation: URLConnectionOperation
    let number: Lifecycle.TryNumber

    /// The connection was cancelled and has stopped.
    func transferDidStop() { operation.transferDidStop(number) }

    /// What has arrived is of no use.
    func transferMustRepeat() { operation.transferMustRepeat(number) }

    /// Whether the response is one after which the request is tried again; then the try has ended with that.
    func retriesInstead(of head: ResponseHead?) -> Bool { operation.retriesInstead(of: head, number) }

    /// The transfer has brought what it can.
    func conclude(data: Data?, head: ResponseHead?, error: (any Error)?) {
        operation.conclude(number, data: data, head: head, error: error)
    }
}
