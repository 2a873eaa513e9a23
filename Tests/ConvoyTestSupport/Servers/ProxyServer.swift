/// A proxy that is a program of its own.
public protocol ProxyServer: Sendable {
    /// The port on 127.0.0.1.
    var port: UInt16 { get }

    /// Ends exactly this proxy, waits for it, and removes its directory.
    func stop()
}
