import ConvoySharedQueue
import ConvoyWorkflow
import Foundation

/// The web page of a queue, as HTML.
struct QueueView: Sendable {
    /// The number of entries per page.
    static let rowCount = 100

    var name = ""
    var overview = QueueOverview()
    var entries: [SharedQueue.Entry] = []
    var hasMore = false
    var query = QueueQuery("")
    var now = Date()

    init() {}

    init(_ queue: SharedQueue, _ query: QueueQuery) async throws(SharedQueueError) {
        (name, self.query) = (queue.store.name, query)
        var filter = query.filter
        filter.states = nil
        overview = try await QueueOverview(queue, filter)
        let place = query["behind"].flatMap { Int64($0) }
        let entries = try await queue.entries(query.filter, behind: place, newestFirst: true, limit: Self.rowCount + 1)
        hasMore = entries.count > Self.rowCount
        self.entries = Array(entries.prefix(Self.rowCount))
    }

    // MARK: Pages

    func page(_ token: String) -> String {
        let pause = overview.isPaused ? "resume" : "pause"
        return Self.document(
            title: "Queue",
            """
            <header><h1>Queue</h1><p class="name">\(HTML.text(name))</p>
            <form method="post" action="/\(pause)\(HTML.text(query.description))">\(Self.field(token))
            \(overview.isPaused ? "<strong>Paused</strong>" : "")<button>\(overview.isPaused ? "Resume" : "Pause") the queue</button>
            </form></header>
            \(states)\(hosts)\(workers)\(table(token))
            """)
    }

    /// Returns the page of one entry.
    static func entryPage(_ queue: SharedQueue, _ id: UUID, _ token: String) async throws(SharedQueueError) -> String {
        let entry = try await queue.entry(id)
        let edges = try await queue.dependencies(of: id)
        let result = try await queue.result(of: id)
        let rows = QueuePrinter.rows(
            of: entry, dependencies: edges.dependencies, dependents: edges.dependents, result)
        let list = rows.map { "<dt>\(HTML.text($0.name))</dt><dd>\(HTML.text($0.value))</dd>" }.joined(separator: "\n")
        let parts = [result?.header, result?.body.map { String(decoding: $0.prefix(65_536), as: UTF8.self) }]
        return document(
            title: "Entry",
            """
            <header><h1>Entry</h1><p class="name"><a href="/">all entries</a></p></header>
            <form method="post" action="/entries">\(field(token))\(buttons(for: entry))</form>
            <dl>\(list)</dl>
            \(parts.compactMap { $0 }.map { "<pre>\(HTML.text($0))</pre>" }.joined(separator: "\n"))
            """)
    }

    static func problemPage(_ text: String) -> String {
        document(
            title: "Queue",
            """
            <header><h1>Queue</h1></header>
            <p class="problem">\(HTML.text(text))</p><p><a href="/">Reload</a></p>
            """)
    }

    private static func document(title: String, _ body: String) -> String {
        """
        <!DOCTYPE html>
        <html lang="en"><head><meta charset="utf-8"><title>\(title)</title>
        <meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
        <link rel="stylesheet" href="/style.css"><script src="/page.js" defer></script></head>
        <body><main>
        \(body)
        </main></body></html>

        """
    }

    private static func field(_ token: String) -> String {
        "<input type=\"hidden\" name=\"token\" value=\"\(HTML.text(token))\">"
    }

    // MARK: Parts

    private var states: String {
        let all = overview.counts.values.reduce(0, +)
        let base = query.without("behind").without("state")
        var items = [link(base, "all", all, isChosen: query["state"] == nil)]
        for state in WorkState.allCases {
            let count = overview.counts[state] ?? 0
            items.append(
                link(
                    base.setting("state", state.rawValue), state.rawValue, count,
                    isChosen: query["state"] == state.rawValue))
        }
        return "<nav class=\"states\">\(items.joined(separator: "\n"))</nav>\n"
    }

    private func link(_ query: QueueQuery, _ name: String, _ count: Int, isChosen: Bool) -> String {
        let mark = isChosen ? " aria-current=\"page\"" : ""
        return "<a class=\"\(name)\" href=\"/\(HTML.text(query.description))\"\(mark)><b>\(count)</b> \(name)</a>"
    }

    private var hosts: String {
        guard !overview.hostRows.isEmpty else { return "" }
        let columns: [WorkState] = [.ready, .leased, .retrying, .waiting, .held, .paused, .failed]
        let head = columns.map { "<th class=\"number\">\($0.rawValue)</th>" }.joined()
        let rows = overview.hostRows.prefix(100).map { row in
            let cells = columns.map { "<td class=\"number\">\(row.counts[$0].map { String($0) } ?? "")</td>" }.joined()
            let closed = row.host?.closedUntil.map { "no requests for \(QueueText.age(now, $0))" }
            let limits = row.host.flatMap { $0.limits == HostLimits() ? nil : QueueText.limits($0.limits) }
            let remark = [limits, closed].compactMap { $0 }.joined(separator: "; ")
            let target = query.without("behind").setting("host", row.name)
            let name =
                row.name == "*"
                ? "all other hosts" : "<a href=\"/\(HTML.text(target.description))\">\(HTML.text(row.name))</a>"
            return "<tr><td>\(name)</td>\(cells)<td>\(HTML.text(remark))</td></tr>"
        }
        return """
            <h2>Hosts</h2><div class="wide"><table><thead><tr><th>host</th>\(head)<th>limits</th></tr></thead>
            <tbody>\(rows.joined(separator: "\n"))</tbody></table></div>

            """
    }

    private var workers: String {
        guard !overview.workers.isEmpty else { return "<h2>Workers</h2><p class=\"none\">No worker is running.</p>\n" }
        let rows = overview.workers.map { worker in
            """
            <tr><td>\(HTML.text(worker.name))</td><td class="number">\(worker.leasedCount)</td>\
            <td class="number">\(worker.jobs)</td><td>\(QueueText.age(worker.startedAt, now))</td>\
            <td>\(QueueText.age(worker.seenAt, now)) ago</td></tr>
            """
        }
        return """
            <h2>Workers</h2><div class="wide"><table><thead><tr><th>worker</th><th class="number">leased</th>\
            <th class="number">jobs</th><th>up for</th><th>seen</th></tr></thead>
            <tbody>\(rows.joined(separator: "\n"))</tbody></table></div>

            """
    }

    private func table(_ token: String) -> String {
        let chosen = ["tag", "group", "host"].compactMap { name in query[name].map { (name: name, value: $0) } }
        let filters = chosen.map { item in
            let rest = query.without(item.name).without("behind")
            return "<a class=\"filter\" href=\"/\(HTML.text(rest.description))\">\(item.name) \(HTML.text(item.value)) ×</a>"
        }.joined(separator: " ")
        guard !entries.isEmpty else {
            return "<h2>Entries \(filters)</h2><p class=\"none\">No entries.</p>\n"
        }
        let all =
            query["state"].flatMap { WorkState(rawValue: $0) }.map { state in
                Self.actions(state).map { "<button name=\"\($0)\" value=\"all\">\($0.capitalized) all of these</button>" }
                    .joined()
            } ?? ""
        var pages = query["behind"] == nil ? "" : "<a href=\"/\(HTML.text(query.without("behind").description))\">Newest</a>"
        if hasMore, let last = entries.last {
            let next = query.setting("behind", String(last.sequence))
            pages += "<a rel=\"next\" href=\"/\(HTML.text(next.description))\">Older</a>"
        }
        return """
            <h2>Entries \(filters)</h2>
            <form method="post" action="/entries\(HTML.text(query.without("behind").description))">\(Self.field(token))
            <p class="many">\(all)</p>
            <table class="entries"><thead><tr><th>state</th><th>request</th><th>details</th><th>changed</th><th></th></tr></thead>
            <tbody>\(entries.map(row).joined(separator: "\n"))</tbody></table>
            </form><p class="pages">\(pages)</p>

            """
    }

    private func row(_ entry: SharedQueue.Entry) -> String {
        let tag = entry.tag.map { tag in
            let target = query.without("behind").setting("tag", tag)
            return " <a class=\"tag\" href=\"/\(HTML.text(target.description))\">\(HTML.text(tag))</a>"
        }
        return """
            <tr><td><span class="state \(entry.state.rawValue)">\(entry.state.rawValue)</span></td>\
            <td class="request"><a href="/entry?id=\(entry.id.text)">\(HTML.text("\(entry.method) \(entry.url)"))</a>\(tag ?? "")</td>\
            <td class="remark">\(HTML.text(QueueText.remark(entry, now)))</td>\
            <td class="time">\(QueueText.age(entry.changedAt, now)) ago</td><td class="change">\(Self.buttons(for: entry))</td></tr>
            """
    }

    private static func buttons(for entry: SharedQueue.Entry) -> String {
        actions(entry.state).map { "<button name=\"\($0)\" value=\"\(entry.id.text)\">\($0.capitalized)</button>" }.joined()
    }

    /// Returns the actions that are available in a state.
    private static func actions(_ state: WorkState) -> [String] {
        switch state {
        case .done: []
        case .leased, .ready: ["cancel"]
        case .cancelled: ["retry"]
        case .waiting, .held, .retrying, .failed, .paused: ["retry", "cancel"]
        }
    }
}

/// Functions that escape text for HTML.
enum HTML {
    /// Returns a string that a browser shows unchanged, between tags and in quoted attributes. Invisible characters, and
    /// those that change the direction of text, become question marks.
    static func text(_ text: String) -> String {
        let scalars = text.unicodeScalars.map { $0 != "\n" && Printable.isObeyed($0) ? "?" : $0 }
        return Markup.escaped(String(String.UnicodeScalarView(scalars)))
    }
}
