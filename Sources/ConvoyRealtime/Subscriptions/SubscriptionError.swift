import Foundation

/// Why a subscription has ended, besides the errors of its event source and of the request for the value.
public enum SubscriptionError: Error, Sendable {
    /// The patches of the events do not apply to the value, though it was fetched again, or they could not be read.
    case unusableEvents(any Error)
    /// The response with the value had no JSON.
    case missingValue
}

extension SubscriptionError: LocalizedError, CustomStringConvertible {
    /// What has happened, in a sentence.
    public var description: String {
        switch self {
        case .unusableEvents(let error): "The events cannot be applied to the value, again and again: \(error)"
        case .missingValue: "The response with the value has no body."
        }
    }

    /// The same.
    public var errorDescription: String? { description }
}
