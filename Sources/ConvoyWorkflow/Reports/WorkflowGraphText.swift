import ConvoySupport
import Foundation

extension Workflow {
    /// The text formats in which the dependency graph can be written.
    public enum GraphFormat: String, Sendable, CaseIterable {
        /// The Graphviz format.
        case dot
        /// The Mermaid format, which GitHub and GitLab render in Markdown.
        case mermaid
    }

    /// Returns the requests and their dependencies as a graph.
    public func graph(_ format: GraphFormat) -> String {
        var lines: [String]
        switch format {
        case .dot:
            lines = ["digraph {", "  rankdir=LR;", "  node [shape=box];"]
            for request in plan.requests {
                let shape = request.forEach == nil ? "" : ", peripheries=2"
                lines.append("  \"\(request.id)\" [label=\"\(request.id)\\n\(Self.label(request))\"\(shape)];")
            }
            for request in plan.requests {
                let style = request.when == nil ? "" : " [style=dashed]"
                for id in request.dependencies { lines.append("  \"\(id)\" -> \"\(request.id)\"\(style);") }
            }
            lines.append("}")
        case .mermaid:
            lines = ["graph LR"]
            for request in plan.requests {
                let label = "\"\(request.id)<br>\(Self.label(request).replacing("\"", with: "#quot;"))\""
                lines.append("  \(request.id)\(request.forEach == nil ? "[\(label)]" : "[[\(label)]]")")
            }
            for request in plan.requests {
                for id in request.dependencies {
                    lines.append("  \(id) \(request.when == nil ? "-->" : "-.->") \(request.id)")
                }
            }
        }
        return lines.joined(separator: "\n")
    }

    private static func label(_ request: RequestPlan) -> String {
        var text = ""
        for piece in request.url.pieces {
            switch piece {
            case .literal(let literal): text += literal
            case .reference(let reference): text += "{\(reference)}"
            case .expression(let expression): text += "{\(expression.source)}"
            }
        }
        let shown = "\(request.method) \(Redaction.url(text).prefix { $0 != "?" })"
        return shown.replacing("\\", with: "/").replacing("\"", with: "'")
    }
}
