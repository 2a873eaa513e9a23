// The names of AFDownloadRequestOperation, an extension of AFNetworking 2, so that the compiler says what to write now.

/// A download to a file (AFDownloadRequestOperation).
@available(*, unavailable, renamed: "DownloadOperation")
public typealias AFDownloadRequestOperation = DownloadOperation
