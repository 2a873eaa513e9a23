#if WebKit
import CGTK
import CWebKit
import ConvoyDiagnostics
import ConvoyGTK
import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// The reason why a page could not be shown although the transfer succeeded.
public enum WebViewError: Error, Sendable, Hashable {
    /// WebKit does not show content of this type, such as `application/zip`.
    case unsupportedType(String)
    /// The body is not valid text in the given encoding, so the transformation cannot be applied.
    case noText(encoding: String?)
    /// WebKit failed to load the content. The associated value is WebKit's message.
    case notShown(String)
}

extension WebViewError: SelfDescribingError {
    public var description: String {
        switch self {
        case .unsupportedType(let type): "A web view cannot show content of the type \(type)."
        case .noText(let encoding): "The page is not valid text in the encoding \(encoding ?? "UTF-8")."
        case .notShown(let message): "WebKit failed to show the page: \(message)"
        }
    }
}

extension Widget {
    /// A closure that is called on the main actor when the page is shown in the view, or with the error.
    public typealias PageCompletion = @MainActor (_ result: Result<HTTPURLResponse, any Error>) -> Void

    /// Loads a page with a manager, transforms its text and shows it in a `WebKitWebView`. The
    /// counterpart of `loadRequest:progress:success:failure:` of `UIWebView`.
    ///
    /// The page is not added to the history of the view, and `reload` of the view loads it without
    /// the manager. Call this method again instead.
    ///
    /// The page is loaded with the manager's trust settings, credentials, cookies and cache. Its
    /// subresources (images, styles, scripts, frames) and the pages that its links lead to are
    /// loaded by WebKit, with WebKit's own cookies, cache and trust settings, because WebKit does
    /// not let programs handle `https` requests.
    ///
    /// A new call ends the previous load of the same view. The transfer is cancelled when the view
    /// is destroyed.
    ///
    /// - Parameters:
    ///   - request: The request for the page. After redirects, the last URL is the page's base URL.
    ///   - manager: The manager that sends the request.
    ///   - progress: Called with the progress of the transfer.
    ///   - transform: A closure that returns the text to show, given the response and its text. It runs on a private
    ///     queue; an error that it throws fails the load.
    ///   - completion: Called once, unless another call or ``cancelPageLoad()`` ends this load or
    ///     the view is destroyed. Without a completion, an error is shown as a page.
    /// - Returns: The operation, which has already been enqueued.
    @MainActor @discardableResult
    public func loadRequest(
        _ request: URLRequest, by manager: HTTPRequestOperationManager,
        progress: (@MainActor (TransferProgress) -> Void)? = nil,
        transform: @escaping @Sendable (_ response: HTTPURLResponse, _ text: String) throws -> String,
        completion: PageCompletion? = nil
    ) -> HTTPRequestOperation {
        load(request, by: manager, progress, completion) { operation, response in
            let type = response.mimeType ?? "text/html"
            let charset = Page.charset(of: operation.responseData ?? Data(), type, label: response.textEncodingName)
            guard let text = charset.map({ $0.text(of: operation.responseData ?? Data()) }) ?? operation.responseString
            else {
                throw WebViewError.noText(encoding: charset?.name ?? response.textEncodingName)
            }
            return Page(data: Data(try transform(response, text).utf8), type: type, encoding: "UTF-8")
        }
    }

    /// Loads a page with a manager, transforms its bytes and shows them. The counterpart of
    /// `loadRequest:MIMEType:textEncodingName:progress:success:failure:`.
    ///
    /// - Parameters:
    ///   - request: The request for the page.
    ///   - manager: The manager that sends the request.
    ///   - mimeType: The type as which the bytes are shown. Defaults to the type of the response.
    ///   - textEncodingName: The text encoding. Defaults to that of the response, or else to that which the page
    ///     declares in a `meta` element.
    ///   - progress: Called with the progress of the transfer.
    ///   - transformData: A closure that returns the bytes to show. By default, the response's bytes are shown
    ///     unchanged.
    ///   - completion: Called as for the method that transforms text.
    /// - Returns: The operation, which has already been enqueued.
    @MainActor @discardableResult
    public func loadRequest(
        _ request: URLRequest, by manager: HTTPRequestOperationManager, mimeType: String? = nil,
        textEncodingName: String? = nil, progress: (@MainActor (TransferProgress) -> Void)? = nil,
        transformData: (@Sendable (_ response: HTTPURLResponse, _ data: Data) throws -> Data)? = nil,
        completion: PageCompletion? = nil
    ) -> HTTPRequestOperation {
        load(request, by: manager, progress, completion) { operation, response in
            let body = operation.responseData ?? Data()
            let data = try transformData.map { try $0(response, body) } ?? body
            let type = mimeType ?? response.mimeType ?? "text/html"
            let label = textEncodingName ?? response.textEncodingName
            return Page(data: data, type: type, encoding: Page.charset(of: data, type, label: label)?.name ?? label)
        }
    }

    /// Ends the current page load without calling its completion. The view keeps its content.
    @MainActor public func cancelPageLoad() { bind(nil, as: "page") }

    @MainActor private func load(
        _ request: URLRequest, by manager: HTTPRequestOperationManager,
        _ progress: (@MainActor (TransferProgress) -> Void)?, _ completion: PageCompletion?,
        _ makePage: @escaping @Sendable (HTTPRequestOperation, HTTPURLResponse) throws -> Page
    ) -> HTTPRequestOperation {
        require(webkit_web_view_get_type())
        let operation = manager.makeOperation(request: request)
        operation.responseSerializer = HTTPResponseSerializer()
        let load = PageLoad(self, operation, progress, completion)
        let binding = WidgetBinding(self, onEnd: { load.end() })
        bind(binding, as: "page")
        load.start(makePage, binding)
        manager.enqueue(operation)
        return operation
    }
}

/// The content that is passed to a web view.
private struct Page: Sendable {
    var data: Data
    var type: String
    var encoding: String?

    /// Returns the charset of an HTML page; nil for other types.
    static func charset(of data: Data, _ type: String, label: String?) -> Charset? {
        type.lowercased() == "text/html" ? .ofHTML(data, label: label) : nil
    }
}

/// A page that is being loaded into a web view.
@MainActor private final class PageLoad: TransferProgressView {
    /// The queue for transformations, which is concurrent because they may take a long time.
    private static let queue = DispatchQueue(label: "Convoy.WebKit.pages", attributes: .concurrent)

    private let widget: Widget
    private weak var binding: WidgetBinding?
    private let operation: HTTPRequestOperation
    private var progress: (@MainActor (TransferProgress) -> Void)?
    private var completion: Widget.PageCompletion?
    private var progressBinding: ViewBinding?
    private var response: HTTPURLResponse?
    private var isOver = false

    init(
        _ widget: Widget, _ operation: HTTPRequestOperation, _ progress: (@MainActor (TransferProgress) -> Void)?,
        _ completion: Widget.PageCompletion?
    ) {
        self.widget = widget
        self.operation = operation
        self.progress = progress
        self.completion = completion
    }

    func start(
        _ makePage: @escaping @Sendable (HTTPRequestOperation, HTTPURLResponse) throws -> Page, _ binding: WidgetBinding
    ) {
        self.binding = binding
        if progress != nil { progressBinding = setProgressWithDownloadProgress(of: operation) }
        operation.completionQueue = Self.queue
        operation.setCompletionHandler { [weak self] operation, _ in
            let result = Result { () throws -> (Page, HTTPURLResponse) in
                guard let response = operation.response else { throw URLError(.badServerResponse) }
                return (try makePage(operation, response), response)
            }
            MainInbox.post { self?.show(result) }
        } failure: { [weak self] _, error in
            MainInbox.post { self?.fail(error) }
        }
    }

    nonisolated func setProgress(_ fraction: Double?, of transfer: TransferProgress) {
        MainActor.assumeIsolated { progress?(transfer) }
    }

    private func show(_ result: Result<(Page, HTTPURLResponse), any Error>) {
        guard !isOver else { return }
        do {
            let (page, response) = try result.get()
            guard webkit_web_view_can_show_mime_type(view, page.type) != 0 else {
                throw WebViewError.unsupportedType(page.type)
            }
            self.response = response
            // Wait for the load event that reports that WebKit has begun to show the page.
            binding?.connectArgument("load-changed") { [weak self] event in
                guard UInt32(truncatingIfNeeded: UInt(bitPattern: event)) == WEBKIT_LOAD_COMMITTED.rawValue else { return }
                self?.finish(.success(response))
            }
            binding?.connect("web-process-terminated") { [weak self] in
                self?.fail(WebViewError.notShown("its process has terminated."))
            }
            // WebKit refuses to load an empty page.
            let data = page.data.isEmpty ? Data(" ".utf8) : page.data
            let bytes = data.withUnsafeBytes { g_bytes_new($0.baseAddress, gsize($0.count)) }
            defer { g_bytes_unref(bytes) }
            let base = response.url ?? operation.request.url
            webkit_web_view_load_bytes(view, bytes, page.type, page.encoding, base?.absoluteString)
        } catch {
            fail(error)
        }
    }

    private func fail(_ error: any Error) {
        guard !isOver else { return }
        if completion == nil {
            let address = operation.request.url?.absoluteString ?? ""
            webkit_web_view_load_alternate_html(view, Self.page(of: error, address), address, nil)
        }
        finish(.failure(error))
    }

    private func finish(_ result: Result<HTTPURLResponse, any Error>) {
        guard !isOver else { return }
        let completion = completion
        release()
        completion?(result)
    }

    /// Releases all handlers and bindings, so that nothing is called afterwards.
    private func release() {
        isOver = true
        progressBinding?.invalidate()
        progress = nil
        completion = nil
        progressBinding = nil
        response = nil
    }

    func end() {
        release()
        operation.cancel()
    }

    private var view: UnsafeMutablePointer<WebKitWebView> { widget.pointer.assumingMemoryBound(to: WebKitWebView.self) }

    private static func page(of error: any Error, _ address: String) -> String {
        func escaped(_ text: String) -> String {
            text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
                .replacingOccurrences(of: "\0", with: "")
        }
        return """
            <!doctype html><meta charset=utf-8><title>\(escaped(error.localizedDescription))</title>
            <body style="font: 16px sans-serif; margin: 4em auto; max-width: 40em">
            <h1 style="font-size: 1.3em">\(escaped(error.localizedDescription))</h1><p>\(escaped(address))
            """
    }
}
#endif
