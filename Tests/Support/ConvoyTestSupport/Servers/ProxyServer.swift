/// A proxy that runs as a separate program.
public protocol ProxyServer: Sendable {
    /// The port on 127.0.0.1.
    var port: UInt16 { get }

    /// Stops this proxy, waits for its end, and removes its directory.
    func stop()
}
