import Convoy
import ConvoyWorkflow

/// Functions that format JSON for people.
enum JSONPrinter {
    static func lines(of json: JSON, _ display: Display) -> [String] {
        var lines: [String] = []
        add(json, indent: 0, head: "", tail: "", to: &lines, display)
        return lines
    }

    private static func add(
        _ json: JSON, indent: Int, head: String, tail: String, to lines: inout [String], _ display: Display
    ) {
        // Deeper indentation would be longer than the values.
        let space = String(repeating: "  ", count: min(indent, 32))
        switch json {
        case .object(let object) where !object.members.isEmpty:
            lines.append("\(space)\(head){")
            for (index, member) in object.members.enumerated() {
                let key = display.paint(JSONLine.quoted(member.key), .cyan)
                add(
                    member.value, indent: indent + 1, head: "\(key): ", tail: index + 1 < object.members.count ? "," : "",
                    to: &lines, display)
            }
            lines.append("\(space)}\(tail)")
        case .array(let values) where !values.isEmpty:
            lines.append("\(space)\(head)[")
            for (index, value) in values.enumerated() {
                add(value, indent: indent + 1, head: "", tail: index + 1 < values.count ? "," : "", to: &lines, display)
            }
            lines.append("\(space)]\(tail)")
        case .string(let text): lines.append("\(space)\(head)\(display.paint(JSONLine.quoted(text), .green))\(tail)")
        default: lines.append("\(space)\(head)\(display.paint(json.description, .yellow))\(tail)")
        }
    }
}
