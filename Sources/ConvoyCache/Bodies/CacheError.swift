/// Why the body of a stored response cannot be read. The entry has been removed; a new request goes to the network.
package enum CacheError: Error, Sendable, Hashable {
    /// The file is not there, or the system refuses to read it.
    case unreadable(reason: String)
    /// The file is shorter than the body that was stored, or its bytes are not those that were stored.
    case damaged
}
