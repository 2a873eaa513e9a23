import ConvoySerialization
import Foundation
import Testing

@testable import ConvoyWorkflow

/// The examples of RFC 9535, as a document, queries and the values that they select.
@Suite struct JSONPathTests {
    struct Table: Sendable, CustomTestStringConvertible {
        let section: String
        let document: String
        let rows: [(query: String, values: String)]

        var testDescription: String { section }
    }

    private static let store = #"""
        {"store": {"book": [
        {"category": "reference", "author": "Nigel Rees", "title": "Sayings of the Century", "price": 8.95},
        {"category": "fiction", "author": "Evelyn Waugh", "title": "Sword of Honour", "price": 12.99},
        {"category": "fiction", "author": "Herman Melville", "title": "Moby Dick", "isbn": "0-553-21311-3", "price": 8.99},
        {"category": "fiction", "author": "J. R. R. Tolkien", "title": "The Lord of the Rings", "isbn": "0-395-19395-8",
        "price": 22.99}], "bicycle": {"color": "red", "price": 399}}}
        """#

    private static let filtered = #"""
        {"a": [3, 5, 1, 2, 4, 6, {"b": "j"}, {"b": "k"}, {"b": {}}, {"b": "kilo"}], "o": {"p": 1, "q": 2, "r": 3, "s": 5,
        "t": {"u": 6}}, "e": "f"}
        """#

    static let tables = [
        Table(
            section: "1.5 Overview", document: store,
            rows: [
                ("$.store.book[*].author", #"["Nigel Rees","Evelyn Waugh","Herman Melville","J. R. R. Tolkien"]"#),
                ("$..author", #"["Nigel Rees","Evelyn Waugh","Herman Melville","J. R. R. Tolkien"]"#),
                ("$.store..price", "[8.95,12.99,8.99,22.99,399]"),
                ("$..book[2].author", #"["Herman Melville"]"#), ("$..book[2].publisher", "[]"),
                ("$..book[-1].title", #"["The Lord of the Rings"]"#),
                ("$..book[0,1].title", #"["Sayings of the Century","Sword of Honour"]"#),
                ("$..book[:2].title", #"["Sayings of the Century","Sword of Honour"]"#),
                ("$..book[?@.isbn].title", #"["Moby Dick","The Lord of the Rings"]"#),
                ("$..book[?@.price<10].title", #"["Sayings of the Century","Moby Dick"]"#),
            ]),
        Table(section: "2.2.3 Root", document: #"{"k": "v"}"#, rows: [("$", #"[{"k":"v"}]"#)]),
        Table(
            section: "2.3.1.3 Names", document: #"{"o": {"j j": {"k.k": 3}}, "'": {"@": 2}}"#,
            rows: [
                ("$.o['j j']", #"[{"k.k":3}]"#), ("$.o['j j']['k.k']", "[3]"), (#"$.o["j j"]["k.k"]"#, "[3]"),
                (#"$["'"]["@"]"#, "[2]"),
            ]),
        Table(
            section: "2.3.2.3 Wildcard", document: #"{"o": {"j": 1, "k": 2}, "a": [5, 3]}"#,
            rows: [
                ("$[*]", #"[{"j":1,"k":2},[5,3]]"#), ("$.o[*]", "[1,2]"), ("$.o[*, *]", "[1,2,1,2]"), ("$.a[*]", "[5,3]"),
            ]),
        Table(
            section: "2.3.3.3 Indices", document: #"["a", "b"]"#,
            rows: [("$[1]", #"["b"]"#), ("$[-2]", #"["a"]"#), ("$[2]", "[]"), ("$[-3]", "[]")]),
        Table(
            section: "2.3.4.3 Slices", document: #"["a", "b", "c", "d", "e", "f", "g"]"#,
            rows: [
                ("$[1:3]", #"["b","c"]"#), ("$[5:]", #"["f","g"]"#), ("$[1:5:2]", #"["b","d"]"#),
                ("$[5:1:-2]", #"["f","d"]"#), ("$[::-1]", #"["g","f","e","d","c","b","a"]"#), ("$[::0]", "[]"),
                ("$[9007199254740991:]", "[]"), ("$[-100:2]", #"["a","b"]"#), ("$[2:-100:-1]", #"["c","b","a"]"#),
            ]),
        Table(
            section: "2.3.5.3 Filters", document: filtered,
            rows: [
                ("$.a[?@.b == 'kilo']", #"[{"b":"kilo"}]"#), ("$.a[?(@.b == 'kilo')]", #"[{"b":"kilo"}]"#),
                ("$.a[?@>3.5]", "[5,4,6]"), ("$.a[?@.b]", #"[{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}]"#),
                (
                    "$[?@.*]",
                    #"[[3,5,1,2,4,6,{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}],{"p":1,"q":2,"r":3,"s":5,"t":{"u":6}}]"#
                ),
                ("$[?@[?@.b]]", #"[[3,5,1,2,4,6,{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}]]"#),
                ("$.o[?@<3, ?@<3]", "[1,2,1,2]"), ("$.a[?@<2 || @.b == \"k\"]", #"[1,{"b":"k"}]"#),
                ("$.a[?match(@.b, \"[jk]\")]", #"[{"b":"j"},{"b":"k"}]"#),
                ("$.a[?search(@.b, \"[jk]\")]", #"[{"b":"j"},{"b":"k"},{"b":"kilo"}]"#),
                ("$.a[?search(@.b, '[jk]') && !match(@.b, '[jk]')]", #"[{"b":"kilo"}]"#),
                ("$.a[?match(@.b, 'x)|(j')]", "[]"), ("$.o[?@>1 && @<4]", "[2,3]"), ("$.o[?@.u || @.x]", #"[{"u":6}]"#),
                ("$.a[?@.b == $.x]", "[3,5,1,2,4,6]"),
                ("$.a[?@ == @]", #"[3,5,1,2,4,6,{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}]"#),
                ("$.a[?length(@.b) == 4]", #"[{"b":"kilo"}]"#), ("$[?count(@.*) > 9] ", "invalid"),
                ("$.a[?!@.b]", "[3,5,1,2,4,6]"), ("$.a[?value(@..b) == 'j']", #"[{"b":"j"}]"#),
            ]),
        Table(
            section: "2.5.2.3 Descendants", document: #"{"o": {"j": 1, "k": 2}, "a": [5, 3, [{"j": 4}, {"k": 6}]]}"#,
            rows: [
                ("$..j", "[1,4]"), ("$..[0]", #"[5,{"j":4}]"#),
                ("$..o", #"[{"j":1,"k":2}]"#), ("$.o..[*, *]", "[1,2,1,2]"), ("$.a..[0, 1]", #"[5,3,{"j":4},{"k":6}]"#),
            ]),
        Table(
            section: "2.6.1 Null", document: #"{"a": null, "b": [null], "c": [{}], "null": 1}"#,
            rows: [
                ("$.a", "[null]"), ("$.a[0]", "[]"), ("$.a.d", "[]"), ("$.b[0]", "[null]"), ("$.b[*]", "[null]"),
                ("$.b[?@]", "[null]"), ("$.b[?@==null]", "[null]"), ("$.c[?@.d==null]", "[]"), ("$.null", "[1]"),
            ]),
    ]

    @Test("The examples of the RFC select the listed values", arguments: tables)
    func selectsValues(_ table: Table) throws {
        let document = try JSON(parsing: Data(table.document.utf8))
        for row in table.rows {
            guard row.values != "invalid" else {
                #expect(throws: EvaluationError.self, "\(row.query)") { try JSONPath(row.query) }
                continue
            }
            let values = try JSON(parsing: Data(row.values.utf8))
            #expect(try .array(JSONPath(row.query).values(in: document)) == values, "\(row.query)")
        }
    }

    /// The comparisons of section 2.3.5.3.
    @Test(
        "Comparisons follow the table of the RFC",
        arguments: [
            ("$.absent1 == $.absent2", true), ("$.absent1 <= $.absent2", true), ("$.absent == 'g'", false),
            ("$.absent1 != $.absent2", false), ("$.absent != 'g'", true), ("1 <= 2", true), ("1 > 2", false),
            ("13 == '13'", false), ("'a' <= 'b'", true), ("'a' > 'b'", false), ("$.obj == $.arr", false),
            ("$.obj != $.arr", true), ("$.obj == $.obj", true), ("$.obj != $.obj", false), ("$.arr == $.arr", true),
            ("$.arr != $.arr", false), ("$.obj == 17", false), ("$.obj != 17", true), ("$.obj <= $.arr", false),
            ("$.obj < $.arr", false), ("$.obj <= $.obj", true), ("$.arr <= $.arr", true), ("1 <= $.arr", false),
            ("1 >= $.arr", false), ("1 > $.arr", false), ("1 < $.arr", false), ("true <= true", true),
            ("true > true", false), ("1 == 1.0", true), ("-0 == 0", true), ("1e2 == 100", true),
        ])
    func compares(_ condition: String, _ holds: Bool) throws {
        let document: JSON = ["obj": ["x": "y"], "arr": [2, 3]]
        #expect(try JSONPath("$[?\(condition)]").values(in: document).isEmpty == !holds)
    }

    @Test(
        "Invalid queries are rejected with a position",
        arguments: [
            "", " $", "$ ", "x", "$.", "$..", "$[", "$[]", "$[01]", "$[-0]", "$[1.0]", "$['a]", "$[\"\\x\"]", "$['\\\"']",
            "$['\\uD800']", "$.1a", "$. a", "$[9007199254740992]", "$[?1]", "$[?'a']", "$[?true]", "$[?@.*==1]",
            "$[?@..a==1]", "$[?count(1)>2]", "$[?count(@.*)]", "$[?length(@.*)<3]", "$[?match(@.a,'b')==true]",
            "$[?match(@.a)]", "$[?foo(@)]", "$[?length (@)>1]", "$[?@.a=1]", "$[?(@.a]", "$[?@.a==01]", "$[?@==1 == 2]",
        ])
    func rejects(_ query: String) throws {
        let error = #expect(throws: EvaluationError.self) { try JSONPath(query) }
        #expect(error?.message.contains("(character ") == true)
    }

    @Test("Deep nesting and long queries fail without a crash")
    func limitsDepth() throws {
        for query in [
            "$" + String(repeating: "[?(", count: 3000), "$[?" + String(repeating: "!(", count: 3000),
            "$" + String(repeating: ".a", count: 20_000), "$[?" + String(repeating: "length(", count: 1400),
        ] {
            #expect(throws: EvaluationError.self) { try JSONPath(query) }
        }
    }

    @Test("A query that visits too many values fails")
    func limitsSteps() throws {
        let list = JSON.array((0..<3000).map { .number(JSONNumber($0)) })
        #expect(throws: EvaluationError.self) { try JSONPath("$[?count($[?count($[*])>1])>1]").values(in: list) }
    }
}
