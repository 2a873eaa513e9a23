/// How the network is watched; tests change it.
struct WatchSettings: Sendable {
    /// The folder of all links.
    var linkFolder = LinkKind.systemFolder
    /// In bytes; nil for that of the system. The kernel rounds it up to a few kilobytes.
    var receiveBufferSize: Int32?
    /// Called on the watching thread before it reads what has come, so that a test can hold it up.
    var willRead: @Sendable () -> Void = {}
}
