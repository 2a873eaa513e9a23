import ConvoySerialization
import Foundation
import FoundationNetworking

// What the members of AFNetworking's manager have become.

extension HTTPRequestOperationManager {
    /// A manager without a base URL.
    @available(*, unavailable, renamed: "init()")
    public static func manager() -> HTTPRequestOperationManager { HTTPRequestOperationManager() }

    /// Makes an operation for a request.
    @available(*, unavailable, message: "makeOperation(request:); then its setCompletionHandler(success:failure:)")
    public final func HTTPRequestOperationWithRequest(
        _ request: URLRequest, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// Makes an operation for a request.
    @available(*, unavailable, message: "makeOperation(request:); then its setCompletionHandler(success:failure:)")
    public final func httpRequestOperation(
        with request: URLRequest, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    // MARK: Verbs

    /// A GET.
    @available(*, unavailable, renamed: "get(_:parameters:success:failure:)")
    @discardableResult
    public final func GET(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A HEAD.
    @available(*, unavailable, renamed: "head(_:parameters:success:failure:)")
    @discardableResult
    public final func HEAD(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A POST.
    @available(*, unavailable, renamed: "post(_:parameters:success:failure:)")
    @discardableResult
    public final func POST(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A POST of a form.
    @available(*, unavailable, renamed: "post(_:parameters:constructingBody:success:failure:)")
    @discardableResult
    public final func POST(
        _ URLString: String, parameters: Any?, constructingBodyWithBlock block: ((MultipartFormData) -> Void)?,
        success: ((HTTPRequestOperation, Any?) -> Void)?, failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A PUT.
    @available(*, unavailable, renamed: "put(_:parameters:success:failure:)")
    @discardableResult
    public final func PUT(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A PATCH.
    @available(*, unavailable, renamed: "patch(_:parameters:success:failure:)")
    @discardableResult
    public final func PATCH(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }

    /// A DELETE.
    @available(*, unavailable, renamed: "delete(_:parameters:success:failure:)")
    @discardableResult
    public final func DELETE(
        _ URLString: String, parameters: Any?, success: ((HTTPRequestOperation, Any?) -> Void)?,
        failure: ((HTTPRequestOperation?, NSError) -> Void)?
    ) -> HTTPRequestOperation? { nil }
}
