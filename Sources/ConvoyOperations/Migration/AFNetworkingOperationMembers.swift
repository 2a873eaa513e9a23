import ConvoySerialization
import Foundation
import FoundationNetworking

// What the members of AFNetworking's operations have become.

extension URLConnectionOperation {
    // MARK: Block setters

    /// Sets what hears of the bytes that are sent.
    @available(*, unavailable, renamed: "setter:uploadProgressHandler(_:)", message: "What is not known is nil, not -1.")
    public final func setUploadProgressBlock(_ block: ((UInt, Int64, Int64) -> Void)?) {}

    /// Sets what hears of the bytes that arrive.
    @available(*, unavailable, renamed: "setter:downloadProgressHandler(_:)", message: "What is not known is nil, not -1.")
    public final func setDownloadProgressBlock(_ block: ((UInt, Int64, Int64) -> Void)?) {}

    /// Sets what decides about redirects.
    @available(*, unavailable, renamed: "setter:redirectHandler(_:)", message: "Called for redirects only.")
    public final func setRedirectResponseBlock(
        _ block: ((Any, URLRequest, URLResponse?) -> URLRequest?)?
    ) {}

    /// Sets what decides about caching.
    @available(*, unavailable, renamed: "setter:cacheResponseHandler(_:)", message: "It gets a CacheCandidate.")
    public final func setCacheResponseBlock(_ block: ((Any, CachedURLResponse) -> CachedURLResponse?)?) {}

    /// Sets what answers a server that asks who it is.
    @available(*, unavailable, renamed: "setter:authenticationChallengeHandler(_:)", message: "It may answer later.")
    public final func setWillSendRequestForAuthenticationChallengeBlock(
        _ block: ((Any, URLAuthenticationChallenge) -> Void)?
    ) {}

    /// Lets the operation go on in the background.
    @available(*, unavailable, message: "Linux suspends no program in the background: nothing need be asked for.")
    public final func setShouldExecuteAsBackgroundTaskWithExpirationHandler(_ handler: (() -> Void)?) {}

    /// Lets the operation go on in the background.
    @available(*, unavailable, message: "Linux suspends no program in the background: nothing need be asked for.")
    public final func setShouldExecuteAsBackgroundTask(expirationHandler handler: (() -> Void)?) {}

    // MARK: Properties

    /// The modes of the network thread's run loop.
    @available(*, unavailable, message: "The network thread has no run loop of Foundation's, and so no modes.")
    public final var runLoopModes: Set<String> {
        get { [] }
        set {}
    }

    // MARK: Batches

    /// Makes a batch.
    @available(*, unavailable, renamed: "batch(of:progress:completion:)")
    public static func batchOfRequestOperations(
        _ operations: [URLConnectionOperation]?, progressBlock: ((UInt, UInt) -> Void)?,
        completionBlock: (([URLConnectionOperation]) -> Void)?
    ) -> [Operation] { [] }

    /// Makes a batch.
    @available(*, unavailable, renamed: "batch(of:progress:completion:)")
    public static func batch(
        ofRequestOperations operations: [URLConnectionOperation]?, progressBlock: ((UInt, UInt) -> Void)?,
        completionBlock: (([URLConnectionOperation]) -> Void)?
    ) -> [Operation] { [] }
}

extension HTTPRequestOperation {
    /// Sets what is called at the end.
    @available(*, unavailable, renamed: "setCompletionHandler(success:failure:)")
    public final func setCompletionBlockWithSuccess(
        _ success: ((HTTPRequestOperation, Any?) -> Void)?, failure: ((HTTPRequestOperation, NSError) -> Void)?
    ) {}

    /// Sets what is called at the end.
    @available(*, unavailable, renamed: "setCompletionHandler(success:failure:)")
    public final func setCompletionBlock(
        success: ((HTTPRequestOperation, Any?) -> Void)?, failure: ((HTTPRequestOperation, NSError) -> Void)?
    ) {}
}
