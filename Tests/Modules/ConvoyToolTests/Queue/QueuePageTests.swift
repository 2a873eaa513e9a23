import Convoy
import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTool

/// A minimal browser, without a cookie store, that requests the web page of a queue.
struct QueuePage {
    let port: UInt16
    var token = ""
    /// The port in the name of the cookie, if the page is behind a proxy.
    var ownPort: UInt16?
    let manager = HTTPRequestOperationManager(baseURL: nil)

    /// Starts `convoy queue serve`.
    static func start(_ ground: QueueGround, _ arguments: String...) async throws -> (page: QueuePage, process: ToolProcess)
    {
        // Showing the page does not create a queue.
        _ = try await ground.queue.isPaused()
        let process = try ToolProcess(
            ["queue", "serve", "--json"] + ground.arguments + arguments, in: ground.bench.scratch.url)
        try await process.waitForOutput("\n")
        let line = try process.output()
        let match = try #require(line.firstMatch(of: /\?token=([0-9a-f]{64})","port":([0-9]+)}/))
        return (QueuePage(port: try #require(UInt16(match.2)), token: String(match.1)), process)
    }

    /// Returns the page at a path, with the cookie.
    func text(_ path: String) async throws -> String { try await get(path, cookie: token).text }

    /// Submits a form with the token, and returns the place to which the browser is sent.
    func submit(_ path: String, _ form: String) async throws -> String? {
        try await post(path, "\(form)&token=\(token)", cookie: token).fields["location"]
    }

    struct Answer: Sendable {
        var status: Int
        var text: String
        var fields: [String: String]
    }

    func get(_ path: String, host: String? = nil, cookie: String? = nil) async throws -> Answer {
        try await send("GET", path, host: host, cookie: cookie, body: nil, fields: [:])
    }

    func post(
        _ path: String, _ form: String, cookie: String? = nil, host: String? = nil, fields: [String: String] = [:]
    ) async throws -> Answer {
        try await send("POST", path, host: host, cookie: cookie, body: form, fields: fields)
    }

    private func send(
        _ method: String, _ path: String, host: String?, cookie: String?, body: String?, fields: [String: String]
    ) async throws -> Answer {
        var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(port)\(path)")))
        request.httpMethod = method
        request.httpBody = body.map { Data($0.utf8) }
        if let host { request.setValue(host, forHTTPHeaderField: "Host") }
        if let cookie { request.setValue("convoy-\(ownPort ?? port)=\(cookie)", forHTTPHeaderField: "Cookie") }
        for (name, value) in fields { request.setValue(value, forHTTPHeaderField: name) }
        let operation = HTTPRequestOperation(request: request)
        operation.redirectHandler = { _, _, _ in nil }
        await withCheckedContinuation { continuation in
            operation.completionQueue = .global()
            operation.setCompletionHandler(
                success: { _, _ in continuation.resume() }, failure: { _, _ in continuation.resume() })
            operation.start()
        }
        let all = operation.response?.allHeaderFields ?? [:]
        return Answer(
            status: try #require(operation.statusCode),
            text: String(decoding: operation.responseData ?? Data(), as: UTF8.self),
            fields: Dictionary(all.map { ("\($0.key)".lowercased(), "\($0.value)") }) { $1 })
    }
}

/// The page of `convoy queue serve`.
@Suite struct QueuePageTests {
    let ground: QueueGround
    let process: ToolProcess
    let page: QueuePage

    init() async throws {
        ground = try QueueGround()
        (page, process) = try await QueuePage.start(ground)
    }

    private func end() async throws {
        process.send(signal: SIGINT)
        #expect(try await process.finished().status == -SIGINT)
    }

    @Test func `nothing is shown or changed without the token or for another host name`() async throws {
        let id = try await ground.add(ground.bench.url("/x"))
        let wrong = String(repeating: "0", count: 64)
        for path in ["/", "/?token=\(wrong)", "/?token=", "/entry?id=\(id.text)", "/style.css", "/confirm?action=retry"] {
            #expect(try await page.get(path).status == 403, "\(path)")
            #expect(try await page.get(path, cookie: wrong).status == 403, "\(path)")
        }
        #expect(try await page.get("/?token=\(page.token)", host: "evil.example:\(page.port)").status == 403)
        #expect(try await page.get("/metrics", host: "evil.example").status == 403)
        let form = "cancel=\(id.text)"
        #expect(try await page.post("/entries", form).status == 403)
        // A form that another site submits can have the cookie, but not the token.
        #expect(try await page.post("/entries", form, cookie: page.token).status == 403)
        #expect(try await page.post("/entries", "\(form)&token=\(wrong)", cookie: page.token).status == 403)
        #expect(try await page.post("/entries", "\(form)&token=\(page.token)").status == 403)
        let whole = "\(form)&token=\(page.token)"
        #expect(try await page.post("/entries", whole, cookie: page.token, host: "evil.example").status == 403)
        let foreign = ["Origin": "http://evil.example"]
        #expect(try await page.post("/entries", whole, cookie: page.token, fields: foreign).status == 403)
        #expect(try await page.get("/entries?cancel=\(id.text)&token=\(page.token)").status == 404)
        #expect(try await ground.queue.entry(id).state == .ready)
        #expect(try await page.post("/entries", whole, cookie: page.token).status == 303)
        #expect(try await ground.queue.entry(id).state == .cancelled)
        try await end()
    }

    @Test func `the token is removed from the address, and the page allows no foreign code`() async throws {
        let first = try await page.get("/?token=\(page.token)&state=failed")
        #expect(first.status == 303 && first.fields["location"] == "./?state=failed")
        let cookie = try #require(first.fields["set-cookie"])
        #expect(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"))
        let shown = try await page.get("/", cookie: page.token)
        #expect(shown.status == 200 && shown.text.contains("No entries."))
        #expect(shown.fields["content-security-policy"]?.contains("default-src 'none'") == true)
        #expect(shown.fields["cache-control"] == "no-store" && shown.fields["x-content-type-options"] == "nosniff")
        for (path, type) in [("/style.css", "text/css; charset=utf-8"), ("/page.js", "text/javascript; charset=utf-8")] {
            #expect(try await page.get(path, cookie: page.token).fields["content-type"] == type)
        }
        #expect(try await page.get("/metrics").text.contains("convoy_queue_entries{state=\"ready\"} 0\n"))
        #expect(try await page.get("/other", cookie: page.token).status == 404)
        try await end()
    }

    @Test func `values from all sources are escaped as text`() async throws {
        let evil = "<script>alert('1')</script>\"&"
        ground.bench.server.route("/bad", .text(evil).status(404, reason: "<script>"))
        var request = SharedRequest(URLRequest(url: try #require(URL(string: ground.bench.url("/bad?q='<script>\"")))))
        (request.tag, request.group, request.uniqueKey) = (evil, evil, evil)
        request.responseBody = .entry()
        request.maximumAttempts = 1
        let id = try await ground.queue.enqueue(request)
        #expect(try await ground.work("--until-empty").status == 1)
        for path in [
            "/", "/entry?id=\(id.text)", "/?tag=%3Cscript%3E", "/?host=%22%3E%3Cscript%3E", "/?x=%22%3E%3Cscript%3E",
        ] {
            let text = try await page.get(path, cookie: page.token).text
            #expect(text.contains("<main>"), "\(path)")
            #expect(text.components(separatedBy: "<script").count == 2 && !text.contains("<script>"), "\(path)")
        }
        let text = try await page.get("/", cookie: page.token).text
        #expect(text.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;"))
        #expect(HTML.text("a\u{202E}\u{7}b") == "a??b")
        try await end()
    }

    @Test func `a search finds each entry once while others arrive`() async throws {
        try await ground.fill(250, tag: "needle")
        var seen: Set<Substring> = [], path: String? = "/?q=needle"
        while let next = path {
            let text = try await page.text(next)
            let rows = text.matches(of: /href="entry\?id=([0-9a-f-]{36})"/).map(\.1)
            #expect(seen.isDisjoint(with: rows))
            seen.formUnion(rows)
            path = text.firstMatch(of: /rel="next" href="([^"]+)"/).map { match in
                "/" + match.1.dropFirst(2).replacing("&amp;", with: "&")
            }
            for tag in ["needle", "other"] { try await ground.fill(30, tag: tag) }
        }
        #expect(seen.count == 250)
        try await end()
    }

    @Test func `many rows are split into linked pages`() async throws {
        let all = PropertyBudget.rounds(450)
        try await ground.fill(all, tag: "bulk")
        try await ground.queue.cancel(SharedQueue.Filter())
        var seen: Set<Substring> = [], path: String? = "/?state=cancelled", count = 0
        while let next = path {
            let text = try await page.get(next, cookie: page.token).text
            let rows = text.matches(of: /href="entry\?id=([0-9a-f-]{36})"/).map(\.1)
            #expect(rows.count <= 100 && seen.isDisjoint(with: rows))
            seen.formUnion(rows)
            count += 1
            path = text.firstMatch(of: /rel="next" href="([^"]+)"/).map { match in
                "/" + match.1.dropFirst(2).replacing("&amp;", with: "&")
            }
        }
        #expect(seen.count == all && count == (all + 99) / 100)
        #expect(try await page.get("/?tag=bulk", cookie: page.token).text.contains("<b>\(all)</b> all"))
        #expect(try await page.get("/?tag=none", cookie: page.token).text.contains("<b>0</b> all"))
        let place = try await page.submit("/entries?state=cancelled&tag=bulk", "retry=all&confirmed=yes")
        #expect(place == "./?state=cancelled&tag=bulk")
        #expect(try await ground.queue.counts()[.ready] == all)
        #expect(try await page.post("/pause", "token=\(page.token)", cookie: page.token).status == 303)
        #expect(try await ground.queue.isPaused())
        #expect(try await page.get("/", cookie: page.token).text.contains("<strong>Paused</strong>"))
        try await end()
    }
}
