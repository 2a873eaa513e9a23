import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// The page of a report in a real browser.
@Suite(.serialized) struct TimelineTests {
    private static let isInstalled = (try? ProcessRunner.run("chromium", ["--version"]))?.status == 0
    private static let installHint = "chromium. Debian, Ubuntu: apt-get install chromium"

    let bench: WorkflowBench

    init() throws { bench = try WorkflowBench() }

    private func page(_ titles: [String?] = [nil]) async throws -> String {
        bench.server.route("/list", .json(["ids": Array(1...12)]).delayed(0.02))
        bench.server.route("/item/*") { request in
            request.path.hasSuffix("7") ? .text("<b>no & never</b>", status: 500) : .pattern(count: 20_000)
        }
        bench.server.route("/job", inTurn: [.status(202), .text("x")])
        let text = """
            requests:
              list: {get: list, capture: {ids: json:/ids}}
              a-request-with-a-name-that-is-rather-long: {forEach: "${list.ids}", get: "item/${item}", parallel: 3}
              job: {get: job, poll: {until: status == 200, every: 30ms}}
              late: {get: job, after: [a-request-with-a-name-that-is-rather-long]}
              end: {get: job, after: [late, job], when: always()}
            """
        let finished = try await bench.run(text) { $0.collectsMetrics = true }
        var report = WorkflowReport()
        for title in titles { report.add(finished.result, of: try bench.workflow(text), title: title) }
        return report.html
    }

    @Test func `the page is self-contained and escapes text from servers`() async throws {
        let page = try await page()
        #expect(!page.contains("src=") && !page.contains("href=") && !page.contains("@import") && !page.contains("url("))
        #expect(page.contains("&lt;b&gt;no &amp; never") && !page.contains("<b>no"))
        for phase in ["dependencies", "connect", "wait", "body", "retry"] { #expect(page.contains("<b class=\"\(phase)\"")) }
        #expect(page.contains("<svg") && page.contains("waiting for dependencies"))
    }

    @Test func `failures come first, and the axis has at most seven marks`() async throws {
        let page = try await page(["one & all", "two"])
        let sections = page.split(separator: "<section>").dropFirst()
        #expect(sections.count == 2 && page.contains("<td><strong>one &amp; all</strong></td>"))
        for section in sections {
            let states = section.split(separator: "<div class=\"row ").dropFirst().map { $0.prefix { $0 != "\"" } }
            #expect(states.count == 16)
            #expect(states.prefix(2).sorted() == ["failed", "failed"] || states.prefix(1) == ["failed"], "\(states)")
            #expect(!states.drop { $0 == "failed" }.contains("failed"))
            #expect((2...7).contains(section.split(separator: "<span style=").count - 1))
        }
    }

    private struct Seen: Decodable {
        var bars: Int
        var overlaps: [String]
        var overflow: Double
        var background: String
        var found: Int
        var rows: Int
        /// The heights of the rows without failures, in pixels.
        var heights: [Double]
    }

    /// A script that checks all texts of the page and uses its search.
    private static let script = """
        (function(){
        var d=document.querySelector('iframe').contentDocument,w=d.createTreeWalker(d.body,4),t=[],n;
        while(n=w.nextNode()){if(!n.data.trim()||n.parentNode.closest('script,style'))continue;
        var r=d.createRange();r.selectNodeContents(n);
        for(var b of r.getClientRects())if(b.width&&b.height)t.push({b:b,s:n.data.trim().slice(0,30)});}
        var o=[];for(var i=0;i<t.length;i++)for(var j=i+1;j<t.length;j++){var a=t[i].b,c=t[j].b;
        if(a.left<c.right-1&&c.left<a.right-1&&a.top<c.bottom-3&&c.top<a.bottom-3)o.push(t[i].s+' / '+t[j].s);}
        var bars=[].filter.call(d.querySelectorAll('.track b'),function(b){return b.getBoundingClientRect().width>=1}).length;
        var h=[].map.call(d.querySelectorAll('.row.succeeded'),function(r){return r.getBoundingClientRect().height});
        var e=d.querySelector('input');e.value='late';e.dispatchEvent(new Event('input'));
        var found=[].filter.call(d.querySelectorAll('.row'),function(r){return !r.hidden}).length;
        document.title=JSON.stringify({bars:bars,overlaps:o,overflow:d.documentElement.scrollWidth-d.documentElement.clientWidth,
        background:getComputedStyle(d.body).backgroundColor,found:found,heights:h,rows:d.querySelectorAll('.row').length});})();
        """

    @Test(.enabled(if: TimelineTests.isInstalled, "\(TimelineTests.installHint)"), arguments: [400, 1600], [false, true])
    func `a browser shows the bars, and no labels overlap`(width: Int, isDark: Bool) async throws {
        let frame =
            "<iframe width=\"\(width)\" height=\"3000\" style=\"border:0\" srcdoc=\"\(Markup.escaped(try await page()))\"></iframe>"
        let html = "<!DOCTYPE html><meta charset=utf-8>\(frame)<script>window.onload=function(){\(Self.script)}</script>"
        let file = try bench.directory.write(Data(html.utf8), to: "page.html")
        let picture = bench.directory.file("page.png")
        let result = try ProcessRunner.run(
            "chromium",
            [
                "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1700,3100",
                "--user-data-dir=\(bench.directory.file("profile").path)",
                "--blink-settings=preferredColorScheme=\(isDark ? 0 : 1)",
                "--screenshot=\(picture.path)", "--dump-dom", "--virtual-time-budget=2000", file.absoluteString,
            ])
        let title = try #require(
            result.text.firstRange(of: "<title>").map { result.text[$0.upperBound...].prefix { $0 != "<" } },
            "\(result.errorText)")
        let seen = try JSONDecoder().decode(
            Seen.self,
            from: Data(title.replacing("&lt;", with: "<").replacing("&amp;", with: "&").replacing("&gt;", with: ">").utf8))
        #expect(seen.overlaps.isEmpty)
        #expect(seen.bars >= 40)
        #expect(seen.overflow <= 0)
        #expect(seen.background == (isDark ? "rgb(18, 22, 27)" : "rgb(255, 255, 255)"))
        #expect(seen.rows == 16 && seen.found == 1)
        if width > 700 { #expect(seen.heights.filter { $0 <= 30 }.count >= 3, "\(seen.heights)") }
        if let folder = ProcessInfo.processInfo.environment["CONVOY_PICTURES"], let data = try? Data(contentsOf: picture) {
            try data.write(
                to: URL(fileURLWithPath: folder).appendingPathComponent("timeline-\(width)-\(isDark ? "dark" : "light").png")
            )
        }
    }
}
