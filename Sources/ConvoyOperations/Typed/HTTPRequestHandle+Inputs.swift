import Foundation
import FoundationNetworking

/// The result of one operation as the input of another.
extension HTTPRequestHandle {
    /// Makes this request wait for another one, and writes that one's value into this one.
    ///
    /// `prepare` is called once, however often the request is paused or retried, when all dependencies have finished and
    /// the operation begins: on one of the library's threads, which it may block. The closures are called in the order in
    /// which they were added, and `URLConnectionOperation.prepare` after them. An error that one throws becomes the
    /// operation's, and nothing is sent; so does `URLError.cannotParseResponse` if the other has succeeded with nothing.
    ///
    /// If the dependency fails or is cancelled, `prepare` is not called, and the `dependencyFailurePolicy` of this
    /// operation decides: with `.run`, the default, it is sent as it is; with `.cancel` it is cancelled, with the
    /// dependency's error as the underlying one.
    ///
    /// To be called before this operation starts.
    ///
    /// - Parameters:
    ///   - dependency: what brings the value. It is enqueued by its owner.
    ///   - prepare: rewrites the request with the value, or throws. Released when it has run, or the operation has finished.
    public func depend<Input>(
        on dependency: TypedOperation<Input>,
        prepare: @escaping @Sendable (_ input: Input, _ request: inout URLRequest) throws -> Void
    ) {
        operation.add(
            DependencyInput(sources: [dependency.operation]) { request in
                guard let value = try dependency.result?.get() else { return }
                try prepare(value, &request)
            })
    }

    /// Makes this request wait for two others, and writes their values into this one. If one of them fails, `prepare` is not
    /// called. The rest is as with one dependency.
    public func depend<First, Second>(
        on first: TypedOperation<First>, _ second: TypedOperation<Second>,
        prepare: @escaping @Sendable (_ first: First, _ second: Second, _ request: inout URLRequest) throws -> Void
    ) {
        operation.add(
            DependencyInput(sources: [first.operation, second.operation]) { request in
                guard let one = try first.result?.get(), let two = try second.result?.get() else { return }
                try prepare(one, two, &request)
            })
    }

    /// Makes this request wait for three others, and writes their values into this one. If one of them fails, `prepare` is
    /// not called. The rest is as with one dependency.
    public func depend<First, Second, Third>(
        on first: TypedOperation<First>, _ second: TypedOperation<Second>, _ third: TypedOperation<Third>,
        prepare:
            @escaping @Sendable (
                _ first: First, _ second: Second, _ third: Third, _ request: inout URLRequest
            ) throws -> Void
    ) {
        operation.add(
            DependencyInput(sources: [first.operation, second.operation, third.operation]) { request in
                guard let one = try first.result?.get(), let two = try second.result?.get(),
                    let three = try third.result?.get()
                else { return }
                try prepare(one, two, three, &request)
            })
    }

    /// Makes this request wait for any number of others of one type, and writes their values into this one, in the order of
    /// `dependencies`. If one of them fails, `prepare` is not called. The rest is as with one dependency.
    public func depend<Input>(
        on dependencies: [TypedOperation<Input>],
        prepare: @escaping @Sendable (_ inputs: [Input], _ request: inout URLRequest) throws -> Void
    ) {
        operation.add(
            DependencyInput(sources: dependencies.map(\.operation)) { request in
                try prepare(try dependencies.compactMap { try $0.result?.get() }, &request)
            })
    }
}
