import ConvoySharedQueue
import Foundation

/// The parts of the page of a queue.
extension QueueView {
    /// Links to the entries in each state.
    var states: String {
        let all = overview.counts.values.reduce(0, +)
        let base = query.without("behind").without("state").without("id")
        var items = [link(base, "all", all, isChosen: query.state == nil)]
        for state in WorkState.allCases {
            let count = overview.counts[state] ?? 0
            items.append(
                link(base.setting("state", state.rawValue), state.rawValue, count, isChosen: query.state == state))
        }
        return "<nav class=\"states\" aria-label=\"States\">\(items.joined(separator: "\n"))</nav>\n"
    }

    private func link(_ query: QueueQuery, _ name: String, _ count: Int, isChosen: Bool) -> String {
        let mark = isChosen ? " aria-current=\"page\"" : ""
        return """
            <a id="state-\(name)" class="\(name)" href="./\(HTML.text(query.description))"\(mark)><b>\(count)</b> \(name)</a>
            """
    }

    /// The age of the oldest entry that is ready.
    var age: String {
        guard let age = overview.oldestReadyAge else { return "" }
        return "<p class=\"age\">The oldest ready entry has waited for \(QueueText.duration(age)).</p>\n"
    }

    var hosts: String {
        let shown = overview.hostRows.prefix(100)
        guard !shown.isEmpty else { return "" }
        let states = [WorkState.ready, .leased, .retrying, .waiting, .held, .paused, .failed]
        let remarks = shown.map { row in
            let closed = row.host?.closedUntil.map { "no requests for \(QueueText.age(now, $0))" }
            let limits = row.host.flatMap { $0.limits == HostLimits() ? nil : QueueText.limits($0.limits) }
            return [limits, closed].compactMap { $0 }.joined(separator: "; ")
        }
        let columns =
            states.map { state in (state.rawValue, true, shown.map { $0.counts[state].map { String($0) } ?? "" }) } + [
                ("oldest ready", true, shown.map { overview.readyAges[$0.name].map { QueueText.duration($0) } ?? "" }),
                ("duration", false, shown.map { QueueText.durations(overview.durations[$0.name]) ?? "" }),
                ("limits", false, remarks),
            ]
        // Empty columns would only take room on a narrow screen.
        let filled = columns.filter { column in column.2.contains { !$0.isEmpty } }
        let head = filled.map { "<th scope=\"col\"\(Self.kind(isNumber: $0.1))>\($0.0)</th>" }.joined()
        let rows = shown.enumerated().map { index, row in
            let cells = filled.map { "<td\(Self.kind(isNumber: $0.1))>\(HTML.text($0.2[index]))</td>" }.joined()
            let target = query.without("behind").without("id").setting("host", row.name)
            let id = "host-\(HTML.text(row.name))"
            let link = "<a id=\"\(id)-link\" href=\"./\(HTML.text(target.description))\">\(HTML.text(row.name))</a>"
            let name = row.name == "*" ? "all other hosts" : link
            return "<tr id=\"\(id)\"><th scope=\"row\">\(name)</th>\(cells)</tr>"
        }
        return """
            <h2 id="hosts">Hosts</h2><div class="wide" tabindex="0" role="region" aria-labelledby="hosts"><table><thead><tr>\
            <th scope="col">host</th>\(head)</tr></thead>
            <tbody>\(rows.joined(separator: "\n"))</tbody></table></div>

            """
    }

    private static func kind(isNumber: Bool) -> String { isNumber ? " class=\"number\"" : "" }

    var workers: String {
        guard !overview.workers.isEmpty else { return "<h2>Workers</h2><p class=\"none\">No worker is running.</p>\n" }
        let rows = overview.workers.map { worker in
            """
            <tr id="worker-\(worker.id.text)"><th scope="row">\(HTML.text(worker.name))</th>\
            <td class="number">\(worker.leasedCount)</td><td class="number">\(worker.jobs)</td>\
            <td>\(QueueText.age(worker.startedAt, now))</td><td>\(QueueText.age(worker.seenAt, now)) ago</td></tr>
            """
        }
        return """
            <h2 id="workers">Workers</h2><div class="wide" tabindex="0" role="region" aria-labelledby="workers"><table>\
            <thead><tr><th scope="col">worker</th><th scope="col" class="number">leased</th>\
            <th scope="col" class="number">jobs</th><th scope="col">up for</th><th scope="col">seen</th></tr></thead>
            <tbody>\(rows.joined(separator: "\n"))</tbody></table></div>

            """
    }

    // MARK: Entries

    func table(_ token: String) -> String {
        let rows = entries.map(row).joined(separator: "\n")
        let list =
            entries.isEmpty
            ? "<p class=\"none\">No entries.</p>"
            : """
            <form method="post" action="entries\(HTML.text(query.without("behind").description))">\(Self.field(token))
            <table class="entries" aria-labelledby="entries"><thead><tr><th scope="col">state</th>\
            <th scope="col">request</th><th scope="col">details</th><th scope="col">changed</th>\
            <th scope="col"><span class="unseen">changes</span></th></tr></thead>
            <tbody>\(rows)</tbody></table></form>
            """
        return """
            <h2 id="entries" tabindex="-1">Entries \(filters)</h2>
            \(searchForm)<p class="many">\(bulkChanges)</p>
            \(list)<p class="pages">\(pages)</p>

            """
    }

    /// Links that remove a part of the filter.
    private var filters: String {
        ["tag", "group", "host"].compactMap { name in
            query[name].map { value in
                let rest = HTML.text(query.without(name).without("behind").without("id").description)
                let text = "\(name) \(HTML.text(value))"
                return
                    "<a id=\"no-\(name)\" class=\"filter\" href=\"./\(rest)\" aria-label=\"\(text): remove\">\(text) ×</a>"
            }
        }.joined(separator: " ")
    }

    private var searchForm: String {
        let hidden = query.selection.filter { $0.name != "q" }.map { item in
            "<input type=\"hidden\" name=\"\(item.name)\" value=\"\(HTML.text(item.value))\">"
        }
        let text = query.search ?? "", rest = HTML.text(query.without("q").without("behind").without("id").description)
        let clear = text.isEmpty ? "" : "<a id=\"no-search\" href=\"./\(rest)\">Clear</a>"
        return """
            <form class="search" role="search" method="get" action="./">\(hidden.joined())\
            <input type="search" id="search" name="q" maxlength="200" value="\(HTML.text(text))" \
            placeholder="URL, tag, group, key, error or id" aria-label="Search entries"><button id="find">Search</button>\
            \(clear)</form>

            """
    }

    /// Links to the newest and to older entries.
    private var pages: String {
        let newest = HTML.text(query.without("behind").description)
        var pages = query["behind"] == nil ? "" : "<a id=\"newest\" href=\"./\(newest)\">Newest</a>"
        if let next {
            let target = HTML.text(query.setting("behind", String(next)).description)
            // A search ends after a number of entries, so that it takes a limited time.
            let label = query.search == nil ? "Older" : "Search older entries"
            pages += "<a id=\"older\" rel=\"next\" href=\"./\(target)\">\(label)</a>"
        }
        return pages
    }

    private func row(_ entry: SharedQueue.Entry) -> String {
        let id = entry.id.text, request = HTML.text("\(entry.method) \(entry.url)")
        let tag = entry.tag.map { tag in
            let target = HTML.text(query.without("behind").without("id").setting("tag", tag).description)
            return """
                 <a id="tag-\(id)" class="tag" href="./\(target)" \
                aria-label="\(HTML.text(tag)), tag of entry \(entry.sequence)">\(HTML.text(tag))</a>
                """
        }
        return """
            <tr id="entry-\(id)"><td><span class="state \(entry.state.rawValue)">\(entry.state.rawValue)</span></td>\
            <td class="request"><a id="link-\(id)" href="entry?id=\(id)" \
            aria-label="\(request), entry \(entry.sequence)">\(request)</a>\(tag ?? "")</td>\
            <td class="remark">\(HTML.text(QueueText.remark(entry, now)))</td>\
            <td class="time">\(QueueText.age(entry.changedAt, now)) ago</td>\
            <td class="change">\(Self.buttons(for: entry))</td></tr>
            """
    }
}
