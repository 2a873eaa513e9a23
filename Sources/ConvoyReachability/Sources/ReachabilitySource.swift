/// What a ``NetworkReachabilityManager`` gets its status from: the kernel, for the managers of the library, or something of
/// your own, such as a connection manager's bus, or a test.
///
/// The counterpart of `SCNetworkReachabilityRef`.
public protocol ReachabilitySource: Sendable {
    /// Begins to report the status: soon the one that there is, and then each that there is after a change.
    ///
    /// Several managers may begin with one source, each with its own report.
    ///
    /// - Parameter report: may be called on any thread, one call after the other. It returns at once. Equal ones in a row
    ///   count as one.
    /// - Returns: a closure that ends the reports. It is called once, on any thread. What is reported after that is
    ///   ignored.
    /// - Throws: whatever keeps it from beginning.
    func begin(_ report: @escaping @Sendable (NetworkReachabilityStatus) -> Void) throws -> @Sendable () -> Void
}
