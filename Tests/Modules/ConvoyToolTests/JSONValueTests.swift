import Convoy
import Foundation
import Testing

@testable import ConvoyTool

@Suite struct JSONValueTests {
    @Test func `numbers in a manifest keep their digits`() throws {
        let value = try JSONValue(parsing: Data(#"{"p": [1.10, 12345678901234567.89, 18446744073709551616, 7]}"#.utf8))
        let request = try JSONRequestSerializer().request(
            method: .post, url: URL(fileURLWithPath: "/"), parameters: value.parameters)
        #expect(request.httpBody == Data(#"{"p":[1.10,12345678901234567.89,18446744073709551616,7]}"#.utf8))
    }

    @Test func `values and keys record their positions`() throws {
        let root = try JSONValue(parsing: Data("{\n \"a\": [\n  7, null]}".utf8))
        guard case .object(let members) = root.content, case .array(let values) = members[0].value.content else {
            Issue.record("no array in an object")
            return
        }
        #expect(members[0].position.line == 2 && members[0].position.column == 2)
        #expect(members[0].value.problem("x").position.column == 7)
        #expect(values[0].position.line == 3 && values[0].position.column == 3)
        #expect(!values[0].isNull && values[1].isNull)
    }

    @Test func `a manifest can be nested at most 100 levels deep`() {
        func nested(_ depth: Int) -> Data {
            Data((String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).utf8)
        }
        #expect(throws: Never.self) { try JSONValue(parsing: nested(100)) }
        #expect(throws: JSONProblem.self) { try JSONValue(parsing: nested(101)) }
    }
}
