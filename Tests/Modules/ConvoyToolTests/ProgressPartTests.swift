import Foundation
import Testing

@testable import ConvoyTool

/// The parts of the progress display.
struct ProgressPartTests {
    private let begun = ContinuousClock.now
    private func time(_ seconds: Double) -> ContinuousClock.Instant { begun + .seconds(seconds) }

    // MARK: Speed

    @Test func `the speed covers the last seconds and drops to 0 when no bytes arrive`() {
        var meter = SpeedMeter(at: begun)
        #expect(meter.speed == nil)
        for tenth in 1...50 { meter.note(Int64(tenth) * 100, at: time(Double(tenth) / 10)) }
        #expect(abs((meter.speed ?? 0) - 1000) < 1)
        for tenth in 51...100 { meter.note(5000, at: time(Double(tenth) / 10)) }
        #expect(meter.speed == 0)
        let bar = ProgressBar(name: "a", done: 5000, total: 9000, speed: meter.speed)
        #expect(bar.timeLeft == nil)
        #expect(bar.text == "a: 55 %, 5.0 kB of 9.0 kB, 0 B/s")
    }

    @Test func `the speed includes the time during which the program was stopped`() {
        var meter = SpeedMeter(at: begun)
        meter.note(1000, at: time(1))
        meter.note(2000, at: time(101))
        #expect(abs((meter.speed ?? 0) - 10) < 10)
    }

    // MARK: Lines of progress

    @Test func `a progress line is due every few seconds with new bytes and after each quarter`() {
        var lines = ProgressLines(at: begun, bytes: 0)
        func bar(_ done: Int64) -> ProgressBar { ProgressBar(name: "a", done: done, total: 1000) }
        #expect(lines.isDue(bar(300), at: time(0.9)) == false)
        #expect(lines.isDue(bar(300), at: time(1.5)) == true)
        #expect(lines.isDue(bar(400), at: time(4)) == false)
        #expect(lines.isDue(bar(400), at: time(6.6)) == true)
        #expect(lines.isDue(bar(400), at: time(60)) == false, "a line was due without new bytes")
        #expect(lines.isDue(bar(501), at: time(61)) == true)
        #expect(lines.isDue(bar(1000), at: time(62.5)) == false, "a line was due at completion, which prints its own line")
    }

    @Test func `bytes from an earlier run do not trigger a progress line`() {
        var lines = ProgressLines(at: begun, bytes: 600)
        #expect(lines.isDue(ProgressBar(name: "a", done: 610, total: 1000), at: time(2)) == false)
        #expect(lines.isDue(ProgressBar(name: "a", done: 760, total: 1000), at: time(2)) == true)
        var unknown = ProgressLines(at: begun, bytes: 0)
        #expect(unknown.isDue(ProgressBar(name: "a", done: 610), at: time(2)) == false)
        #expect(unknown.isDue(ProgressBar(name: "a", done: 610), at: time(5)) == true)
        #expect(ProgressBar(name: "a", done: 610).text == "a: 610 B")
    }

    @Test func `a long transfer prints progress lines less often`() {
        var lines = ProgressLines(at: begun, bytes: 0)
        var count = 0
        for second in 1...3600 where lines.isDue(ProgressBar(name: "a", done: Int64(second)), at: time(Double(second))) {
            count += 1
        }
        #expect((100...180).contains(count), "\(count)")
    }

    // MARK: Layout

    @Test func `with less room, the bar is dropped first, then the time, the rate and the amount`() {
        func parts(_ columns: Int) -> String {
            let layout = ProgressLayout(columns: columns, longestName: 50)
            var parts = layout.bar > 0 ? ["bar"] : []
            if layout.showsTime { parts.append("time") }
            if layout.showsSpeed { parts.append("rate") }
            if layout.showsAmount { parts.append("amount") }
            if layout.name > 0 { parts.append("name") }
            return parts.joined(separator: " ")
        }
        var steps: [String] = []
        for columns in (4...100).reversed() where steps.last != parts(columns) { steps.append(parts(columns)) }
        #expect(
            steps == [
                "bar time rate amount name", "time rate amount name", "rate amount name", "amount name", "name", "",
            ])
    }

    @Test func `a bar of unknown length differs from an empty bar`() {
        let display = Display()
        let unknown = ProgressBar.bar(nil, width: 10, display: display)
        let none = ProgressBar.bar(0, width: 10, display: display)
        #expect(unknown != none && unknown.count == none.count)
    }

    @Test func `a requested rate is printed as it was given`() {
        for text in ["500k", "2M", "1.5M"] {
            let rate = SpeedOptions.rate(text).map { Amounts.speed(Double($0)) } ?? ""
            #expect(rate.filter { $0.isNumber || $0 == "." }.hasPrefix(text.filter { $0.isNumber || $0 == "." }), "\(rate)")
        }
    }

    @Test func `no line is wider than the window`() {
        for columns in 4...120 {
            for name in [0, 1, 2, 3, 5, 11, 40, 200] {
                let layout = ProgressLayout(columns: columns, longestName: name)
                #expect(layout.figuresColumn - 1 + layout.figures <= columns, "\(columns) \(name)")
                #expect(layout.name <= name)
            }
        }
    }

    @Test func `the summary line fits the available width`() {
        var summary = ProgressSummary(
            total: 24, finished: 3, failed: 1, hidden: 12, bytes: 12_345_678, speed: 4_500_000, bytesLeft: 220_000_000)
        #expect(
            summary.line(columns: 80) == "3 of 24 finished, 1 failed, 12.3 MB, 4.5 MB/s, 0:49 left, and 12 more")
        #expect(summary.line(columns: 60) == "3 of 24 finished, 1 failed, 12.3 MB, 4.5 MB/s, and 12 more")
        #expect(summary.line(columns: 40) == "3 of 24 finished, 1 failed, and 12 more")
        #expect(summary.line(columns: 9) == "3 of 24")
        #expect(summary.line(columns: 4) == "3/24")
        #expect(summary.line(columns: 3).isEmpty)
        (summary.bytesLeft, summary.hidden, summary.failed) = (nil, 0, 0)
        #expect(summary.line(columns: 80) == "3 of 24 finished, 12.3 MB, 4.5 MB/s")
    }

    // MARK: Drawing

    @Test func `unchanged lines are redrawn only after the window changes`() {
        var changing = ChangingLines()
        #expect(changing.draw().isEmpty)
        changing.lines = ["a", "b"]
        #expect(changing.draw() == "\u{1B}[?25l\u{1B}[?7la\u{1B}[K\r\nb\u{1B}[K\u{1B}[J\u{1B}[?7h\r\u{1B}[1A")
        #expect(changing.draw().isEmpty)
        changing.reflow()
        #expect(changing.draw().hasPrefix("\r\u{1B}[K"))
        #expect(changing.draw().isEmpty)
        changing.lines = ["c"]
        #expect(changing.draw() == "\u{1B}[?7lc\u{1B}[K\u{1B}[J\u{1B}[?7h\r")
        #expect(changing.giveBack().hasSuffix("\u{1B}[?25h"))
        #expect(changing.giveBack().isEmpty)
        #expect(changing.draw().hasPrefix("\u{1B}[?25l"))
        changing.forget()
        #expect(changing.draw().hasPrefix("\u{1B}[?25l"))
        changing.lines = []
        #expect(changing.draw() == "\r\u{1B}[K\u{1B}[C\u{1B}[J\r")
    }
}
