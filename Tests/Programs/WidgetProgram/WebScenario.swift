#if WebKit
import CGTK
import CWebKit
import ConvoyCookies
import ConvoyGTK
import ConvoyOperations
import ConvoyTestServer
import ConvoyWebKit
import Foundation
import FoundationNetworking

/// Pages that Convoy loads into a web view.
@MainActor enum WebScenario {
    /// Pages in different encodings, and their titles.
    private static let encodedPages: [(body: Data, type: String, title: String)] = {
        func page(_ meta: String, _ title: String, _ encoding: String.Encoding) -> Data {
            "<!doctype html><!-- <meta charset=koi8-r> --><html lang='a>b'>\(meta)<title>\(title)</title>".data(
                using: encoding)
                ?? Data()
        }
        return [
            (page("<meta charset=Shift_JIS>", "日本語", .shiftJIS), "text/html", "日本語"),
            (
                page("<META name=x content='charset=utf-8'><meta charset='windows-1251' />", "Привет", .windowsCP1251),
                "text/html", "Привет"
            ),
            (
                page("<meta content=\"text/html; charset=EUC-JP\" http-equiv=Content-Type>", "", .utf8).dropLast(8)
                    + [0xC6, 0xFC, 0xCB, 0xDC] + Data("</title>".utf8),
                "text/html", "日本"
            ),
            (page("", "Räksmörgås", .windowsCP1252), "text/html", "Räksmörgås"),
            (page("", "Grüße", .utf8), "text/html", "Grüße"),
            (page("<meta charset=koi8-r>", "Grüße", .utf8), "text/html; charset=utf-8", "Grüße"),
            (Data([0xFF, 0xFE]) + (page("", "Größe", .utf16LittleEndian)), "text/html; charset=utf-16", "Größe"),
        ]
    }()

    static func run() async throws -> [String: Any] {
        let server = try TestServer()
        let manager = HTTPRequestOperationManager()
        manager.cookieStore = CookieStore()
        let window = TestWindow()
        let view = window.add(webkit_web_view_new())
        let pointer = view.pointer.assumingMemoryBound(to: WebKitWebView.self)
        gtk_widget_set_vexpand(view.pointer.assumingMemoryBound(to: GtkWidget.self), 1)
        try await window.show()
        func title() -> String { webkit_web_view_get_title(pointer).map { String(cString: $0) } ?? "" }
        func address() -> String { webkit_web_view_get_uri(pointer).map { String(cString: $0) } ?? "" }
        func load(
            _ path: String, _ body: (URLRequest, @escaping Widget.PageCompletion) -> Void
        ) async throws -> Result<HTTPURLResponse, any Error> {
            var result: Result<HTTPURLResponse, any Error>?
            body(URLRequest(url: server.url(path))) { result = $0 }
            try await Scenario.wait("the page \(path)", seconds: 40) { result != nil }
            return result ?? .failure(Scenario.Late(what: path))
        }
        func code(_ result: Result<HTTPURLResponse, any Error>) -> String {
            switch result {
            case .success(let response): "\(response.statusCode)"
            case .failure(let error): (error as? WebViewError)?.description ?? "\((error as NSError).code)"
            }
        }
        var result: [String: Any] = [:]

        // Load a page through a redirect, with the manager's cookie and a transformation.
        let html = "<!doctype html><title>Räksmörgås</title><p>one"
        server.route("/old", TestServer.Response.redirect(to: "/new").header("Set-Cookie", "key=value; Path=/"))
        server.route("/new", .bytes(Data(html.data(using: .isoLatin1) ?? Data()), type: "text/html; charset=iso-8859-1"))
        var moves = 0
        let page = try await load("/old") { request, completion in
            view.loadRequest(
                request, by: manager, progress: { _ in moves += 1 },
                transform: { response, text in
                    text.replacingOccurrences(of: "<title>", with: "<title>\(response.statusCode) ")
                }, completion: completion)
        }
        result["page"] = code(page)
        try await Scenario.wait("the title") { title() == "200 Räksmörgås" }
        result["address"] = address() == server.url("/new").absoluteString
        result["hasMoved"] = moves > 0
        result["cookie"] = server.requests.last?.headers["Cookie"] ?? ""
        result["requests"] = server.requests.count

        // Load the same page without a transformation.
        let data = try await load("/new") { view.loadRequest($0, by: manager, completion: $1) }
        result["data"] = code(data)
        try await Scenario.wait("the title as it was") { title() == "Räksmörgås" }

        // The page itself declares its encoding, in the bytes and for the transformation.
        var encodings: [String] = []
        for (index, page) in Self.encodedPages.enumerated() {
            server.route("/encoded\(index)", .bytes(page.body, type: page.type))
            _ = try await load("/encoded\(index)") { view.loadRequest($0, by: manager, completion: $1) }
            try? await Scenario.wait("the title \(page.title)", seconds: 5) { title() == page.title }
            if title() != page.title { encodings.append("\(index): \(title())") }
            let asText = try await load("/encoded\(index)") {
                view.loadRequest(
                    $0, by: manager,
                    transform: { $1.replacingOccurrences(of: "<title>", with: "<title>text ") }, completion: $1)
            }
            try? await Scenario.wait("the title of \(page.title)", seconds: 5) { title() == "text \(page.title)" }
            if title() != "text \(page.title)" { encodings.append("\(index) as text: \(title()), \(code(asText))") }
        }
        result["wrongEncodings"] = encodings

        // WebKit refuses a page without bytes.
        server.route("/empty", .bytes(Data(), type: "text/html"))
        result["empty"] = code(try await load("/empty") { view.loadRequest($0, by: manager, completion: $1) })

        // Load pages that fail because of the server, the transformation or the content type.
        server.route("/missing", TestServer.Response(status: 404))
        result["missing"] = code(try await load("/missing") { view.loadRequest($0, by: manager, completion: $1) })
        result["thrown"] = code(
            try await load("/new") { request, completion in
                view.loadRequest(
                    request, by: manager, transform: { _, _ in throw URLError(.cannotParseResponse) }, completion: completion
                )
            })
        server.route("/archive", .bytes(Data(count: 100), type: "application/zip"))
        result["archive"] = code(try await load("/archive") { view.loadRequest($0, by: manager, completion: $1) })

        // Without a completion, the view shows an error page.
        view.loadRequest(URLRequest(url: server.url("/missing")), by: manager)
        try await Scenario.wait("the page of an error", seconds: 40) { title().contains("404") }
        result["errorPage"] = true

        // A new load cancels the previous one, and releasing the view cancels its load.
        let gate = TestServer.Gate()
        server.route("/held", TestServer.Response.bytes(Data("x".utf8), type: "text/html").held(by: gate))
        var calls = 0
        let first = view.loadRequest(URLRequest(url: server.url("/held")), by: manager, completion: { _ in calls += 1 })
        _ = try await load("/new") { view.loadRequest($0, by: manager, completion: $1) }
        try await Scenario.wait("the first to be cancelled") { first.isFinished }
        result["firstIsCancelled"] = (first.error as? URLError)?.code == .cancelled
        let last = view.loadRequest(URLRequest(url: server.url("/held")), by: manager, completion: { _ in calls += 1 })
        let living = LivingWidgets()
        living.watch(view)
        window.destroy()
        try await Scenario.wait("the last to be cancelled") { last.isFinished && living.count == 0 }
        result["callsOfCancelled"] = calls
        return result
    }
}
#endif
