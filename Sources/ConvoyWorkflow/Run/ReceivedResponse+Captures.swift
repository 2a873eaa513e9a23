import ConvoySerialization
import Foundation

extension ReceivedResponse {
    /// Returns the value of a capture, or nil if nothing is found.
    ///
    /// - Throws: The reason why the body cannot be searched.
    func value(of source: CaptureSource) throws(EvaluationError) -> JSON? {
        switch source {
        case .status: return status.map { .number(JSONNumber($0)) }
        case .url: return url.map { .string($0.absoluteString) }
        case .header(let name): return field(name).map { .string($0) }
        case .cookie(let name): return cookie(name).map { .string($0) }
        case .link(let relation): return try link(relation).map { .string($0) }
        case .json(let path): return try path.finding(in: try parsedJSON()).value
        case .text(let pattern, let group):
            try checkLength()
            guard let pattern else { return .string(text) }
            return try Pattern.firstMatch(of: pattern, group: group, in: text).map { .string($0) }
        case .xpath(let expression):
            try checkLength()
            let values = try XPath.values(of: expression, in: data, label: label, isHTML: isHTML)
            return values.isEmpty ? nil : .array(values.map { .string($0) })
        }
    }
}
