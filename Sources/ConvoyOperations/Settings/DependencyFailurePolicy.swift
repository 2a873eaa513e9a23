/// The reaction of an operation to a failed or cancelled dependency.
public enum DependencyFailurePolicy: Sendable, Hashable {
    /// The operation runs, as in AFNetworking and in Foundation. If this policy was set explicitly, an operation that
    /// takes a value from the dependency is sent without that value.
    case run
    /// The operation is cancelled: it finishes with `URLError.cancelled`, with the dependency's error as the underlying
    /// error.
    case cancel
}
