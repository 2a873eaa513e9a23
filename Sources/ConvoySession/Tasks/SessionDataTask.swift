/// A task whose response is kept in memory. The counterpart of `URLSessionDataTask`.
public class SessionDataTask: SessionTask, @unchecked Sendable {}

/// A task that sends a body: a file, data, a stream, or a form with parts. The counterpart of `URLSessionUploadTask`.
public final class SessionUploadTask: SessionDataTask, @unchecked Sendable {}
