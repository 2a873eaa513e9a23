import ConvoyOperations
import ConvoySerialization
import Foundation

// The names of AFNetworking's patches, which were in the betas of AFNetworking 2 and in AFRocketClient, so that the compiler
// says what to write now.

/// A change of a JSON document (AFJSONPatchSerializer).
@available(*, unavailable, renamed: "JSONPatch.Operation")
public typealias AFJSONPatchOperation = JSONPatch.Operation

/// The serializer of responses with patches (AFJSONPatchSerializer).
@available(*, unavailable, renamed: "JSONPatchResponseSerializer")
public typealias AFJSONPatchResponseSerializer = JSONPatchResponseSerializer

extension HTTPManager {
    /// Subscribes to the patches of a document.
    @available(*, unavailable, message: "subscribe(_:) gives the operations to its handler, and applies them to the value.")
    public func SUBSCRIBE(
        _ path: String, usingBlock block: (([JSONPatch.Operation]?, (any Error)?) -> Void)?, error: Any?
    ) -> EventSource? {
        nil
    }
}
