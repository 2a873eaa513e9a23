import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// The contents of a terminal screen, during transfers and afterwards.
@Suite(.serialized, .enabled(if: Tmux.isInstalled, "not installed: \(Tmux.installHint)"))
struct TerminalTests {
    let bench: Workbench

    init() throws {
        bench = try Workbench()
        // The first 42 % of each held response arrive.
        bench.hold(count: 1_000_000, at: "/held/*", after: 420_000)
        bench.server.route("/quick.txt", .text("x"))
    }

    /// Returns the command that downloads files with these names.
    private func get(_ names: [String], options: String = "") -> String {
        let urls = names.map { name in
            let encoded = name.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
            return "'\(bench.url("/held/\(encoded)"))'"
        }
        return "$convoy get \(options) \(urls.joined(separator: " "))"
    }

    private var quick: String { "'\(bench.url("/quick.txt"))'" }

    private static let percent = "42%"
    private static func isBar(_ row: String) -> Bool { row.contains(percent) }
    private static func isSummary(_ row: String) -> Bool { row.contains(/^\d+( of |\/)\d+/) }
    private static let long = "a-very-long-name-of-a-file-that-is-cut-in-the-middle-2026.tar.gz"

    /// Waits for the given number of bars and the summary line below them, and returns their rows.
    @discardableResult
    private func bars(
        _ count: Int, in tmux: Tmux, when isRight: ([String]) -> Bool = { _ in true }
    ) async throws
        -> [String]
    {
        let rows = try await tmux.waitFor("\(count) bars and a summary") { rows in
            rows.filter(Self.isBar).count == count && rows.last.map(Self.isSummary) == true && isRight(rows)
        }
        let bars = Array(rows.suffix(count + 1))
        #expect(bars.filter(Self.isBar).count == count, "the bars are not on consecutive rows: \(rows)")
        return bars
    }

    // MARK: Windows

    @Test(arguments: [40, 80, 200])
    func `each transfer has a row with a percentage, followed by a summary row`(
        _ columns: Int
    ) async throws {
        let tmux = try Tmux(columns: columns, rows: 24, in: bench.scratch.url)
        try await tmux.run(get([Self.long, "b.bin", "日本.txt"]))
        let rows = try await bars(3, in: tmux) { $0.last?.contains("1.3 MB") == true }
        let names = rows.dropLast().map { $0.split(separator: " ").first.map(String.init) ?? "" }
        let shown = try #require(names.first { $0.contains("…") })
        #expect(shown.hasPrefix("a-v") && shown.hasSuffix(".tar.gz") && !shown.contains("cut-in-the-middle"))
        #expect(Set(names) == [shown, "b.bin", "日本.txt"])
        for row in rows.dropLast() {
            #expect(row.contains("420.0 kB"))
            #expect(row.contains("━") == (columns > 40), "\(row)")
        }
        #expect(rows.last?.hasPrefix("0 of 3 finished, 1.3 MB") == true)
        #expect(try tmux.rows.count <= 24 && tmux.allRows.contains("line 60"))
        let widths = rows.map { Printable.width($0) }
        #expect(widths.allSatisfy { $0 < min(columns, 101) }, "\(widths)")
    }

    /// Returns the mistakes on the screen while the size of the window changes.
    private func mistakesWhileTheWindowChanges() async throws -> [String] {
        let tmux = try Tmux(columns: 200, rows: 24, in: bench.scratch.url)
        try await tmux.run(get([Self.long, "b.bin", "日本.txt"], options: "-f") + " " + quick)
        try await bars(3, in: tmux) { $0.last?.hasPrefix("1 of 4 finished") == true }
        for columns in [40, 80, 24, 80, 200, 100, 30, 200] {
            try tmux.resize(columns: columns)
            try await tmux.waitFor("three bars for \(columns) columns") { rows in
                let bars = rows.filter(Self.isBar)
                return bars.count >= 3 && rows.last?.hasPrefix("1 of 4") == true
                    && bars.suffix(3).allSatisfy { $0.contains("━") == (columns >= 80) && $0.contains("kB") }
                    && bars.suffix(3).contains { $0.contains("B/s") } == (columns >= 40)
            }
            let all = try tmux.allRows
            let end = try #require(all.firstIndex(of: "line 60"))
            guard all.filter(Self.isBar).count == 3, all.filter(Self.isSummary).count == 1, all.count - end <= 7,
                all.filter({ $0.contains("━") || $0.contains("B/s") || $0.contains("…") }).count <= 5,
                all[end + 1].hasPrefix("✓ quick.txt: 1 B in")
            else { return ["at \(columns):"] + all.suffix(30) }
        }
        try tmux.type("C-c")
        let rows = try await tmux.waitFor("the end") { $0.last == "$" }
        return rows.filter { $0.contains("━") }
    }

    @Test func `after the window changes, each row appears once and no old rows remain`() async throws {
        // No program can prevent the terminal from changing between reading its width and writing a row, which is then
        // broken. On a busy machine this happens occasionally, but not every time.
        var mistakes: [String] = []
        for _ in 0..<3 {
            mistakes = try await mistakesWhileTheWindowChanges()
            if mistakes.isEmpty { return }
        }
        #expect(mistakes.isEmpty)
    }

    @Test func `with more transfers than rows, the summary counts the hidden ones`() async throws {
        let tmux = try Tmux(columns: 80, rows: 10, in: bench.scratch.url)
        try await tmux.run(get((1...20).map { "\($0).bin" }, options: "-j 20"))
        try await bars(7, in: tmux) { rows in
            rows.last?.hasPrefix("0 of 20 finished, 8.4 MB, ") == true && rows.last?.hasSuffix("and 13 more") == true
        }
        try tmux.resize(rows: 5)
        try await bars(3, in: tmux) { $0.last?.hasSuffix("and 17 more") == true }
        bench.gate.open()
        let last = try await tmux.waitFor("the end") { $0.last == "$" }
        #expect(last.dropLast().last?.hasPrefix("20 downloaded, 20.0 MB in") == true)
        #expect(try tmux.allRows.filter { $0.hasPrefix("✓ ") }.count == 20)
        #expect(try !tmux.allRows.contains { $0.contains(Self.percent) || $0.contains(" more") })
    }

    @Test func `a tiny window shows the percentage and a shortened name`() async throws {
        let tmux = try Tmux(columns: 10, rows: 3, in: bench.scratch.url)
        try await tmux.run(get(["first.bin", "second.bin", "third.bin"]))
        let rows = try await bars(1, in: tmux)
        #expect(rows.first?.contains(/^[fst][a-z]?…[a-z]?[n] +42%$/) == true, "\(rows)")
        #expect(rows.last == "0 of 3")
        try tmux.type("C-c")
        try await tmux.waitFor("the end") { $0.last == "$" }
        #expect(try !tmux.allRows.contains(where: Self.isBar))
    }

    // MARK: Names

    @Test func `figures are aligned regardless of the characters in the names`() async throws {
        let names = [
            "plain.bin", "中文文件名.bin", "👨‍👩‍👧👍🏽🇩🇪❤️.bin", "e\u{301}a\u{308}o\u{302}.bin", "שלום عالم.bin",
            "\u{1B}[31m\u{1B}[2J\u{9B}5n\r\u{202E}.bin",
        ]
        let tmux = try Tmux(columns: 80, rows: 24, in: bench.scratch.url)
        try await tmux.run(get(names))
        let rows = try await bars(names.count, in: tmux) { $0.last?.contains("2.5 MB") == true }
        var columns: Set<[Int]> = []
        for row in rows.dropLast() {
            let percent = try #require(row.range(of: Self.percent))
            let bar = try #require(row.firstIndex(of: "━"))
            columns.insert([
                try await tmux.width(of: String(row[..<bar])), try await tmux.width(of: String(row[..<percent.upperBound])),
            ])
            #expect(row[percent.lowerBound...].hasPrefix("42% 420.0 kB"), "\(row)")
            #expect(row.components(separatedBy: ".bin").count == 2, "\(row)")
        }
        #expect(columns.count == 1, "\(columns) in \(rows)")
        #expect(rows.contains { $0.hasPrefix("中文文件名.bin ") })
        #expect(rows.contains { $0.hasPrefix("שלום عالم.bin ") })
    }

    @Test func `without UTF-8, names and bars are ASCII`() async throws {
        let tmux = try Tmux(columns: 80, rows: 24, in: bench.scratch.url)
        try await tmux.run("LC_ALL=C " + get(["日本.txt", "éß.bin"]))
        let rows = try await bars(2, in: tmux)
        #expect(Set(rows.dropLast().map { $0.prefix(6) }) == ["??.txt", "??.bin"], "\(rows)")
        #expect(rows.dropLast().allSatisfy { $0.contains("###---") && $0.utf8.allSatisfy { $0 < 0x80 } }, "\(rows)")
        bench.gate.open()
        let last = try await tmux.waitFor("the end") { $0.last == "$" }
        #expect(last.contains { $0.hasPrefix("* ??.txt: 1.0 MB in ") }, "\(last)")
    }

    // MARK: Ending

    @Test func `Ctrl-C removes the bars and restores the terminal`() async throws {
        let tmux = try Tmux(columns: 80, rows: 24, in: bench.scratch.url)
        try await tmux.run(get(["a.bin", "b.bin"]) + " " + quick)
        try await bars(2, in: tmux)
        #expect(try !tmux.isCursorVisible)
        try tmux.type("C-c")
        let rows = try await tmux.waitFor("the prompt") { $0.last == "$" }
        let end = try #require(rows.firstIndex(of: "line 60"))
        #expect(rows[end + 1].hasPrefix("✓ quick.txt"), "\(rows)")
        #expect(rows[end + 2].hasPrefix("1 downloaded, 2 not finished"), "\(rows)")
        #expect(!rows.contains { $0.contains("━") || $0.contains("%") && $0.contains("B/s") }, "\(rows)")
        #expect(try tmux.isCursorVisible)
        try tmux.type("echo typed", "Enter")
        try await tmux.waitFor("what is typed") { $0.suffix(3) == ["$ echo typed", "typed", "$"] }
    }

    @Test func `an error is printed above the bars, and no bars remain at the end`() async throws {
        bench.server.route("/missing", .text("gone", status: 404))
        let tmux = try Tmux(columns: 80, rows: 24, in: bench.scratch.url)
        try await tmux.run(get(["a.bin", "b.bin"]) + " '\(bench.url("/missing"))'")
        let rows = try await tmux.waitFor("bars below the error") {
            $0.filter(Self.isBar).count == 2 && $0.last?.hasPrefix("1 of 3 finished, 1 failed") == true
        }
        let first = try #require(rows.firstIndex(where: Self.isBar))
        #expect(rows[..<first].contains { $0.hasPrefix("convoy: ✗ http://127.0.0.1") }, "\(rows)")
        bench.server.stop()
        let last = try await tmux.waitFor("the prompt") { $0.last == "$" }
        #expect(!last.contains { $0.contains("━") }, "\(last)")
        #expect(try tmux.isCursorVisible)
    }

    @Test func `Ctrl-Z removes the bars, and fg redraws them even if no bytes arrive`() async throws {
        let tmux = try Tmux(columns: 80, rows: 24, in: bench.scratch.url)
        try await tmux.run(get(["a.bin", "b.bin"]))
        // The rate has dropped to 0, so the display no longer changes.
        try await bars(2, in: tmux) { $0.last?.contains(" 0 B/s") == true }
        try tmux.type("C-z")
        let stopped = try await tmux.waitFor("the stop") { $0.last == "$" && $0.contains { $0.contains("Stopped") } }
        #expect(!stopped.contains { $0.contains("━") || $0.contains("of 2 finished") }, "\(stopped)")
        #expect(try tmux.isCursorVisible)
        try tmux.type("clear; fg", "Enter")
        try await bars(2, in: tmux)
        #expect(try !tmux.isCursorVisible)
        bench.gate.open()
        let rows = try await tmux.waitFor("the end") { $0.last == "$" }
        #expect(rows.filter { $0.hasPrefix("✓ ") }.count == 2 && !rows.contains { $0.contains("━") }, "\(rows)")
        #expect(try tmux.isCursorVisible)
    }

    @Test func `after a SIGSTOP, the bars are redrawn below the output of another program`() async throws {
        let tmux = try Tmux(columns: 80, rows: 24, in: bench.scratch.url)
        try await tmux.run("(echo $BASHPID >number; exec " + get(["a.bin", "b.bin"]) + ")")
        try await bars(2, in: tmux) { $0.last?.contains(" 0 B/s") == true }
        let number = try #require(pid_t(bench.scratch.text("number").trimmingCharacters(in: .whitespacesAndNewlines)))
        kill(number, SIGSTOP)
        try await tmux.waitFor("the stop") { $0.contains { $0.contains("Stopped") } }
        try tmux.type("clear; echo other; fg", "Enter")
        let rows = try await tmux.waitFor("bars") { $0.filter(Self.isBar).count == 2 }
        #expect(rows.first == "other", "\(rows)")
        #expect(rows.filter(Self.isSummary).count == 1, "\(rows)")
        bench.gate.open()
        try await tmux.waitFor("the end") { $0.last == "$" }
        #expect(try tmux.isCursorVisible)
    }

    @Test func `no bars are drawn in the background of a shell`() async throws {
        let other = TestServer.Gate()
        bench.server.route("/other.bin", .pattern(count: 1000).heldBody(by: other, afterBytes: 420))
        let tmux = try Tmux(columns: 80, rows: 24, in: bench.scratch.url)
        try await tmux.run(get(["a.bin", "b.bin"]) + " '\(bench.url("/other.bin"))'")
        try await bars(3, in: tmux)
        try tmux.type("C-z")
        try await tmux.waitFor("the stop") { $0.last == "$" && $0.contains { $0.contains("Stopped") } }
        try tmux.type("clear; bg", "Enter")
        other.open()
        // If the bars remained, they would be drawn again after a line about a file.
        let rows = try await tmux.waitFor("the line of a file") { $0.contains { $0.contains("✓ other.bin") } }
        #expect(!rows.contains { $0.contains("━") }, "\(rows)")
        #expect(try tmux.isCursorVisible)
        try tmux.type("fg", "Enter")
        try await bars(2, in: tmux)
        bench.gate.open()
        try await tmux.waitFor("the end") { $0.last == "$" && $0.contains { $0.hasPrefix("3 downloaded") } }
    }
}
