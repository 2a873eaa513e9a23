import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySerialization

/// Random trees, whose queries must decode to the paths and values of the tree.
@Suite struct QueryRoundTripTests {
    private struct Leaf {
        var path: [QueryDecoder.Step]
        var value: ParameterValue
    }

    /// Returns the scalars of a tree with their paths, as far as the style preserves them.
    private func leaves(
        _ value: ParameterValue, _ path: [QueryDecoder.Step], _ style: QueryStringStyle, _ into: inout [Leaf]
    ) {
        switch value {
        case .dictionary(let values):
            for key in values.keys.sorted() { leaves(values[key] ?? .null, path + [.key(key)], style, &into) }
        case .array(let values):
            for (index, value) in values.enumerated() {
                let step: [QueryDecoder.Step] =
                    switch style.arrays {
                    case .brackets: [.element]
                    case .indices: [.index(index)]
                    case .noBrackets: []
                    }
                leaves(value, path + step, style, &into)
            }
        case .set(let values):
            for value in ParameterValue.sorted(values) { leaves(value, path, style, &into) }
        default: into.append(Leaf(path: path, value: value))
        }
    }

    private func reads(_ text: String?, as value: ParameterValue, _ style: QueryStringStyle) -> Bool {
        switch (value, text) {
        case (.null, nil): true
        case (.bool(let value), let text?): text == (style.booleans == .literal ? "\(value)" : value ? "1" : "0")
        case (.integer(let value), let text?): Int64(text) == value
        case (.unsignedInteger(let value), let text?): UInt64(text) == value
        case (.double(let value), let text?): Double(text) == value
        case (.string(let value), let text?): value.utf8.elementsEqual(text.utf8)
        case (.data(let value), let text?): Data(base64Encoded: text) == value
        case (.date(let value), let text?):
            style.dates == .secondsSince1970
                ? Double(text) == value.timeIntervalSince1970
                : style.dates == .iso8601 ? DateText.iso8601(value) == text : DateText.description(of: value) == text
        default: false
        }
    }

    @Test(arguments: [
        QueryStringStyle.brackets, .indices.booleans(.literal), .noBrackets.dates(.iso8601),
        .dots.dates(.secondsSince1970),
    ])
    func `every query decodes back to its parameters`(style: QueryStringStyle) throws {
        var random = RandomParameters(seed: 1)
        let decoder = QueryDecoder(nesting: style.nesting)
        for number in 0..<PropertyBudget.rounds(2_500) {
            let tree = random.tree()
            let query = try style.queryString(from: tree)
            var expected: [Leaf] = []
            leaves(tree, [], style, &expected)
            let fields = decoder.fields(query)
            let isSame =
                fields?.count == expected.count
                && zip(fields ?? [], expected).allSatisfy { field, leaf in
                    field.path == leaf.path && reads(field.value, as: leaf.value, style)
                }
            if !isSame {
                Issue.record("tree \(number): \(tree) became \(query)")
                return
            }
        }
    }

    @Test func `the query of a URL equals the encoded parameters`() throws {
        var random = RandomParameters(seed: 5)
        let serializer = HTTPRequestSerializer()
        for _ in 0..<2_000 {
            let tree = random.tree()
            let query = try serializer.queryStringStyle.queryString(from: tree)
            let request = try serializer.request(method: .get, url: exampleURL, parameters: tree)
            let expected = "http://example.com/path" + (query.isEmpty ? "" : "?" + query)
            if request.url?.absoluteString != expected {
                Issue.record("\(String(describing: request.url)) for \(expected)")
                return
            }
        }
    }
}
