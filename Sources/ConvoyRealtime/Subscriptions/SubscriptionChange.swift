import ConvoySerialization

/// What has become of a subscribed value.
public enum SubscriptionChange: Sendable, Hashable {
    /// The value as a whole: the first, one that was fetched again, one that the server has sent in an event `put`, or the
    /// newest in place of changes that the reader was too slow for.
    case value(JSON)
    /// Operations, which have been applied to the value.
    case patch(JSONPatch)
}
