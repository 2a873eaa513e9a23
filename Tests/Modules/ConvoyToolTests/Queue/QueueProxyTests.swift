import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// The page of `convoy queue serve` behind a proxy, and in a browser.
@Suite struct QueueProxyTests {
    @Test(.enabled(if: Nginx.isInstalled, "\(Nginx.installHint)"))
    func `the page works behind a proxy under another path`() async throws {
        let ground = try QueueGround()
        let id = try await ground.add(ground.bench.url("/x"), "--tag", "t")
        let port = try LoopbackPort.free(), nginx = try Nginx(forwardingTo: port)
        defer { nginx.stop() }
        let origin = "http://127.0.0.1:\(nginx.port)", base = "\(origin)/forward/"
        let (own, process) = try await QueuePage.start(ground, "--port", "\(port)", "--base-url", base)
        #expect(try process.output().contains("\"url\":\"\(base)?token="))
        let page = QueuePage(port: nginx.port, token: own.token, ownPort: port)
        let first = try await page.get("/forward/?token=\(page.token)")
        #expect(first.status == 303 && first.fields["location"] == "./")
        // The cookie applies to the directory of the page.
        #expect(first.fields["set-cookie"]?.contains("Path") == false)
        let text = try await page.text("/forward/")
        #expect(text.contains("id=\"link-\(id.text)\""))
        // No link leaves the directory.
        for match in text.matches(of: /(?:href|src|action)="([^"]*)"/) {
            #expect(match.1.firstMatch(of: /^(\.\/|entr|confirm|pause|style\.css|page\.js)/) != nil, "\(match.1)")
        }
        for path in ["style.css", "page.js", "entry?id=\(id.text)"] {
            #expect(try await page.get("/forward/\(path)", cookie: page.token).status == 200)
        }
        let form = "pause=\(id.text)&token=\(page.token)"
        let foreign = ["Origin": "http://evil.example"]
        #expect(try await page.post("/forward/entries", form, cookie: page.token, fields: foreign).status == 403)
        #expect(try await ground.queue.entry(id).state == .ready)
        let posted = try await page.post("/forward/entries", form, cookie: page.token, fields: ["Origin": origin])
        #expect(posted.status == 303 && posted.fields["location"] == "./")
        #expect(try await ground.queue.entry(id).state == .paused)
        // A proxy would make the metrics public.
        #expect(try await page.get("/forward/metrics").status == 403)
        #expect(try await page.get("/forward/metrics", cookie: page.token).status == 200)
        process.send(signal: SIGINT)
        _ = try await process.finished()
    }

    @Test func `a proxy may forward the whole path and the name of its host, but no other`() async throws {
        let ground = try QueueGround()
        let (page, process) = try await QueuePage.start(ground, "--base-url", "https://ops.example/tools/queue")
        func get(_ path: String, host: String? = "ops.example") async throws -> QueuePage.Answer {
            try await page.get(path, host: host, cookie: page.token)
        }
        #expect(try await get("/tools/queue/").status == 200)
        #expect(try await get("/tools/queue/style.css").status == 200)
        for host in ["ops.example", nil] { #expect(try await get("/", host: host).status == 200) }
        #expect(try await get("/tools/queue?state=done").fields["location"] == "./queue/?state=done")
        for host in ["evil.example", "ops.example:81", "ops.example.evil.example", "127.0.0.1.evil.example"] {
            #expect(try await get("/", host: host).status == 403, "\(host)")
        }
        // The token of a link leads to no other host and no unknown page.
        for path in ["//evil.example/", "/tools/queue//evil.example/", "//evil.example", "/x", "/tools/queue/tools/queue/"] {
            let answer = try await get("\(path)?token=\(page.token)")
            #expect(answer.status == 404 && answer.fields["location"] == nil, "\(path)")
        }
        let cookie = try await get("/tools/queue/?token=\(page.token)").fields["set-cookie"]
        #expect(cookie?.hasSuffix("; Secure") == true)
        // A prefix in a header field is not trusted.
        let form = "token=\(page.token)"
        let answer = try await page.post(
            "/pause", form, cookie: page.token,
            fields: ["X-Forwarded-Prefix": "//evil.example", "X-Forwarded-Host": "evil.example"])
        #expect(answer.fields["location"] == "./")
        let other = ["Origin": "https://evil.example", "X-Forwarded-Host": "evil.example"]
        #expect(try await page.post("/resume", form, cookie: page.token, fields: other).status == 403)
        let own = ["Origin": "https://ops.example"]
        #expect(try await page.post("/resume", form, cookie: page.token, fields: own).status == 303)
        process.send(signal: SIGINT)
        _ = try await process.finished()
    }

    @Test func `only the URL of a directory is accepted as the URL of the page`() {
        #expect(QueueProxy("https://ops.example")?.url == "https://ops.example/")
        #expect(QueueProxy("http://Ops.Example:80/a%20b/c")?.url == "http://ops.example/a%20b/c/")
        for text in [
            "", "ops.example", "ftp://x/", "https://", "https://x//evil.example/", "https://x/a//b/", "https://x/../a/",
            "https://x/a?b", "https://x/#a", "https://u@x/", "https://x/a\\b", "https://x/a b", "https://x/\"",
            "https://x/\r\n",
            "https://x:0/", "https://x/a;b/",
        ] {
            #expect(QueueProxy(text) == nil, "\(text)")
        }
    }

    // MARK: In a browser

    private static let hasChromium = (try? ProcessRunner.run("chromium", ["--version"]))?.status == 0

    private struct Seen: Decodable {
        var focus: String
        var isSame: Bool
        var typed: String
        var states: [String]
        var stale: Bool
    }

    /// Loads a page, focuses one of its elements, and returns what is shown after the page has been refreshed.
    private func refresh(_ old: String, _ new: String, focusing id: String) throws -> Seen {
        let server = try TestServer(), directory = try TemporaryDirectory(prefix: "convoy-page")
        let probe = """
            addEventListener("load", () => {
                const kept = document.getElementById("\(id)");
                kept.focus();
                document.getElementById("search").value = "typed";
                setTimeout(() => {
                    const states = [...document.querySelectorAll(".entries .state")].map((part) => part.textContent);
                    document.title = JSON.stringify({ focus: document.activeElement.id, states,
                        isSame: document.activeElement === kept, typed: document.getElementById("search").value,
                        stale: !document.getElementById("stale").hidden });
                }, 4500);
            });
            """
        func html(_ text: String) -> TestServer.Response { .text(text).header("Content-Type", "text/html") }
        let withProbe = old.replacing("</head>", with: "<script src=\"probe.js\"></script></head>")
        server.route("/", inTurn: [html(withProbe), html(new)])
        for (name, text) in [("page.js", QueuePageFiles.script), ("probe.js", probe)] {
            server.route("/\(name)", .text(text).header("Content-Type", "text/javascript"))
        }
        server.route("/style.css", .text(QueuePageFiles.style).header("Content-Type", "text/css"))
        let result = try ProcessRunner.run(
            "chromium",
            [
                "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=\(directory.file("profile").path)",
                "--dump-dom", "--virtual-time-budget=6000", server.url("/").absoluteString,
            ])
        let title = try #require(result.text.firstMatch(of: /<title>(\{.*?\})<\/title>/), "\(result.errorText)").1
        return try JSONDecoder().decode(Seen.self, from: Data(title.utf8))
    }

    @Test(.enabled(if: QueueProxyTests.hasChromium, "chromium. Debian, Ubuntu: apt-get install chromium"))
    func `a refresh keeps the focus, or moves it to the row whose button is gone`() async throws {
        let ground = try QueueGround(), url = ground.bench.url("/x")
        let ids = [try await ground.add(url), try await ground.add(url), try await ground.add(url)]
        func page() async throws -> String { try await QueueView(ground.queue, QueueQuery("")).page("t") }
        let old = try await page()
        for _ in 0..<2 { _ = try await ground.add(url) }
        try await ground.queue.purge(SharedQueue.Filter(id: ids[0]))
        try await ground.queue.cancel(SharedQueue.Filter(id: ids[1]))
        let new = try await page()
        let kept = try refresh(old, new, focusing: "cancel-\(ids[2].text)")
        #expect(kept.focus == "cancel-\(ids[2].text)" && kept.isSame && !kept.stale)
        #expect(kept.states == ["ready", "ready", "ready", "cancelled", "ready"] && kept.typed == "typed")
        // Another button must not take the place of one that is about to be pressed.
        let moved = try refresh(old, new, focusing: "cancel-\(ids[1].text)")
        #expect(moved.focus == "link-\(ids[1].text)", "\(moved)")
        // The last entry leaves the page.
        try await ground.queue.cancel(SharedQueue.Filter())
        try await ground.queue.purge(SharedQueue.Filter())
        let gone = try refresh(old, try await page(), focusing: "cancel-\(ids[0].text)")
        #expect(gone.focus == "entries" && gone.states.isEmpty && !gone.stale)
        // A page of an error does not replace the entries.
        let stale = try refresh(old, "<p>no</p>", focusing: "cancel-\(ids[0].text)")
        #expect(stale.stale && stale.isSame && stale.states.count == 3)
    }
}
