/// An error about a value that does not exist, or cannot be used where it is referenced.
struct EvaluationError: Error, Equatable {
    var message: String
    /// Whether the cause is a file that cannot be read or written.
    var isAboutFile = false
}
