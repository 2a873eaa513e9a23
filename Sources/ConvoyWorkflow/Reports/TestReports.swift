import Foundation

/// Reports for programs that display test results.
extension WorkflowResult {
    /// Returns the run as JUnit XML, with a test case for each request or item.
    ///
    /// - Parameter name: The name of the manifest.
    public func junit(name: String) -> String {
        var lines = [#"<?xml version="1.0" encoding="UTF-8"?>"#]
        let failed = failures.count, skipped = outcomes.count { $0.state == .skipped }
        let counts = #"tests="\#(outcomes.count)" failures="\#(failed)" skipped="\#(skipped)" time="\#(Self.time(seconds))""#
        lines.append("<testsuites \(counts)>")
        lines.append(#"  <testsuite name="\#(Markup.escaped(name))" \#(counts) timestamp="\#(Self.timestamp(began))">"#)
        for outcome in outcomes {
            let head =
                #"    <testcase classname="\#(Markup.escaped(name))" name="\#(Markup.escaped(outcome.name))" line="\#(outcome.line)" time="\#(Self.time(outcome.seconds))""#
            switch outcome.state {
            case .succeeded where outcome.hasMorePages:
                lines += [
                    "\(head)>", "      <system-out>\(Markup.escaped(outcome.pagesNote))</system-out>", "    </testcase>",
                ]
            case .succeeded, .kept: lines.append("\(head)/>")
            case .skipped:
                lines += [
                    "\(head)>", #"      <skipped message="\#(Markup.escaped(outcome.failures.first ?? ""))"/>"#,
                    "    </testcase>",
                ]
            case .failed:
                let failures = outcome.locatedFailures(in: name), first = failures.first?.prefix { $0 != "\n" } ?? ""
                lines += [
                    "\(head)>",
                    #"      <failure message="\#(Markup.escaped(String(first)))">\#(Markup.escaped(failures.joined(separator: "\n")))</failure>"#,
                    "    </testcase>",
                ]
            }
        }
        return (lines + ["  </testsuite>", "</testsuites>", ""]).joined(separator: "\n")
    }

    /// Returns the run in the Test Anything Protocol, version 13.
    ///
    /// - Parameter name: The name of the manifest.
    public func tap(name: String) -> String {
        var lines = ["TAP version 13", "1..\(outcomes.count)"]
        for (index, outcome) in outcomes.enumerated() {
            let title = Self.tapText(outcome.name)
            switch outcome.state {
            case .succeeded, .kept:
                lines.append("ok \(index + 1) - \(title)")
                if outcome.hasMorePages { lines.append("# \(outcome.pagesNote)") }
            case .skipped: lines.append("ok \(index + 1) - \(title) # SKIP \(Self.tapText(outcome.failures.first ?? ""))")
            case .failed:
                lines += [
                    "not ok \(index + 1) - \(title)", "  ---", "  at: \(Self.yamlText("\(name):\(outcome.line)"))",
                    "  failures:",
                ]
                lines += outcome.locatedFailures(in: name).map { "    - \(Self.yamlText($0))" } + ["  ..."]
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func tapText(_ text: String) -> String {
        text.replacing("#", with: "\\#").split(whereSeparator: \.isNewline).joined(separator: " ")
    }

    private static func yamlText(_ text: String) -> String { Markup.json(text) }

    private static func time(_ seconds: Double) -> String { String(format: "%.3f", seconds) }

    private static func timestamp(_ date: Date) -> String {
        String(date.formatted(.iso8601).dropLast())
    }
}

/// Functions that escape untrusted text for XML, HTML and JSON.
package enum Markup {
    package static func escaped(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            case "\n": result += "&#10;"
            // XML cannot represent the other control characters.
            case _
            where scalar.value < 0x20 && scalar != "\t" || scalar.value == 0x7F || scalar.value == 0xFFFE
                || scalar.value == 0xFFFF:
                result += "?"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    static func json(_ text: String) -> String {
        let data = (try? JSONEncoder().encode(text)) ?? Data("\"\"".utf8)
        return String(decoding: data, as: UTF8.self)
    }
}
