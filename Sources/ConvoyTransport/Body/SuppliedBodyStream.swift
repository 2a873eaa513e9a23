import Foundation

/// A request body that is asked for piece by piece, so that no thread waits in `read`.
package protocol SuppliedBodyStream: InputStream {
    /// Asks for the next piece. To be called when the last one has come; must not block. `then` is called once, on any
    /// thread, with nil at the end; not after ``stopSupplying()``.
    func supply(_ then: @escaping @Sendable (Result<Data?, any Error>) -> Void)

    /// Nothing more is needed.
    func stopSupplying()
}

/// The underlying error where the code of a user that supplies a body has failed.
package struct BodySupplyFailure: Error, CustomStringConvertible {
    /// The error that the user's code has thrown.
    package let cause: any Error

    package var description: String { String(describing: cause) }
}
