/// What becomes of a data task when its response has come. The counterpart of `URLSession.ResponseDisposition`.
public enum SessionResponseDisposition: Sendable, Hashable {
    /// The task goes on.
    case allow
    /// The task fails with `URLError.cancelled`.
    case cancel
    /// The body goes into a file, and the task becomes a download task.
    case becomeDownload
}
