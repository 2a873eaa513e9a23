/// The progress of an operation that has finished, where its results do not tell. Few operations have one.
final class KeptProgress: Sendable {
    let progress: TransferProgress

    init(_ progress: TransferProgress) { self.progress = progress }
}
