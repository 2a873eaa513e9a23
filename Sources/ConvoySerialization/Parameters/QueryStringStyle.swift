import ConvoySupport
import Foundation

extension QueryStringStyle {
    /// The query string of a tree: `field=value` or, for null, `field`, escaped and joined by `&`. The
    /// counterpart of `AFQueryStringFromParameters`.
    ///
    /// - Throws: as ``pairs(from:)``, and if a date cannot be written in this style.
    public func queryString(from parameters: Parameter) throws -> String {
        var output: [UInt8] = []
        output.reserveCapacity(128)
        for pair in try pairs(from: parameters) {
            if !output.isEmpty { output.append(UInt8(ascii: "&")) }
            PercentEscaping.append(pair.field, to: &output)
            guard pair.value != .null else { continue }
            output.append(UInt8(ascii: "="))
            PercentEscaping.append(try text(of: pair.value), to: &output)
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// The fields of a tree in the order in which they are sent. The counterpart of
    /// `AFQueryStringPairsFromDictionary`.
    ///
    /// - Throws: an error in ``URLRequestSerializationErrorDomain`` if the root is neither a dictionary nor null, as
    ///   its values would have no names, or if the tree is nested deeper than ``Parameter/maximumDepth``.
    public func pairs(from parameters: Parameter) throws -> [QueryStringPair] {
        switch parameters {
        case .null: return []
        case .dictionary(let values): return try fields(values.sorted { $0.key < $1.key })
        case .object(let object): return try fields(Parameter.sortedMembers(object))
        default:
            throw NSError.request(.invalidParameters, "The parameters of a query or form must be a dictionary.")
        }
    }

    private func fields(_ members: [(key: String, value: Parameter)]) throws -> [QueryStringPair] {
        var pairs: [QueryStringPair] = []
        pairs.reserveCapacity(members.count)
        for (key, value) in members { try append(value, named: key, depth: 1, to: &pairs) }
        return pairs
    }

    private func append(
        _ value: Parameter, named field: String, depth: Int, to pairs: inout [QueryStringPair]
    ) throws {
        guard depth <= Parameter.maximumDepth else {
            throw NSError.request(
                .parametersTooDeep, "The parameters are nested deeper than \(Parameter.maximumDepth) levels.")
        }
        switch value {
        case .dictionary(let values):
            try append(values.sorted { $0.key < $1.key }, in: field, depth: depth, to: &pairs)
        case .object(let object):
            try append(Parameter.sortedMembers(object), in: field, depth: depth, to: &pairs)
        case .array(let values):
            for (index, value) in values.enumerated() {
                let name =
                    switch arrays {
                    case .brackets: "\(field)[]"
                    case .indices: "\(field)[\(index)]"
                    case .noBrackets: field
                    }
                try append(value, named: name, depth: depth + 1, to: &pairs)
            }
        case .set(let values):
            for value in Parameter.sorted(values) {
                try append(value, named: field, depth: depth + 1, to: &pairs)
            }
        default:
            pairs.append(QueryStringPair(field: field, value: value))
        }
    }

    private func append(
        _ members: [(key: String, value: Parameter)], in field: String, depth: Int, to pairs: inout [QueryStringPair]
    ) throws {
        for (key, value) in members {
            let name = nesting == .brackets ? "\(field)[\(key)]" : "\(field).\(key)"
            try append(value, named: name, depth: depth + 1, to: &pairs)
        }
    }

    /// The unescaped text of a value that is not a container.
    func text(of value: Parameter) throws -> String {
        switch value {
        case .bool(let value) where booleans == .literal:
            return value ? "true" : "false"
        case .date(let date):
            let text: String? =
                switch dates {
                case .description: DateText.description(of: date)
                case .iso8601: DateText.iso8601(date)
                case .secondsSince1970:
                    date.timeIntervalSince1970.isFinite ? Parameter.text(of: date.timeIntervalSince1970) : nil
                }
            guard let text else {
                throw NSError.request(.invalidParameters, "A date lies outside the years 1 to 9999.")
            }
            return text
        default:
            return value.description
        }
    }
}
