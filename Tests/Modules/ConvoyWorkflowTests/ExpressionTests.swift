import ConvoySerialization
import ConvoySupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Expressions, evaluated for a fixed response.
@Suite struct ExpressionTests {
    static let json = #"""
        {"id": 7, "name": "Ada", "tags": ["b", "a", "b"], "price": 9.5, "ok": true, "no": null, "empty": [],
         "items": [{"id": 1, "p": "10"}, {"id": 2, "p": "9"}], "a b": {"é": "ü"}, "big": 9007199254740993, "t": "1,2,,3"}
        """#

    static func response(_ body: Data = Data(json.utf8), type: String = "application/json") -> ReceivedResponse {
        ReceivedResponse(
            status: 201,
            fields: [
                ("Content-Type", type), ("X-A", "1"), ("x-a", "2"), ("Set-Cookie", "s=1; Path=/p; Max-Age=60; Secure"),
                ("Set-Cookie", "t.u=x=y; HttpOnly"),
            ],
            url: URL(string: "http://a.test/x?y=1"), body: body, file: nil, byteCount: Int64(body.count), seconds: 0.25,
            address: "127.0.0.1")
    }

    static func scope(_ response: ReceivedResponse = response()) -> ResponseScope {
        var plan = WorkflowPlan()
        plan.variables = ["count": 3, "status": "mine", "list": [1, 2], "user": ["name": "Ada"]]
        plan.environment = ["HOME": "/h"]
        return ResponseScope(
            examined: response, outer: ItemScope(values: RunValues(plan)), id: "own", captures: ["c": ["k": 5]])
    }

    static func value(_ text: String, _ response: ReceivedResponse = response()) throws -> ExpressionValue {
        try ExpressionParser.parse(text, in: .response).value(in: scope(response))
    }

    static let truths = [
        // Values of the response.
        "status == 201", "status != 200", "status >= 201 and status < 300", "status in [200, 201]", "not status in [1]",
        "status not in [1, 2]", "headers.X-A == '1, 2'", #"headers("x-a") == ["1", "2"]"#, "headers['Content-Type'] exists",
        "headers.Nope not exists", "cookies.s == '1'", "cookies.s.path == '/p'", "cookies.s.max-age == 60",
        "cookies.s.secure", "cookies['t.u'] == 'x=y'", "cookies['t.u'].httponly == true", "cookies.x not exists",
        "cookies | count == 2", "body contains '\"id\": 7'", "body startsWith '{' and body endsWith '}'", "json.id == 7",
        "json.id == 7.0", "body.id == json.id", "json.tags[0] == 'b'", "json.tags.0 == 'b'", "json.tags[-1] == 'b'",
        "json.items[1].id == 2", "(json.items | last).id == 2", "json['a b']['é'] == 'ü'", #"json["a b"]["é"] == 'ü'"#,
        "json.tags == ['b', 'a', 'b']", "json.items[0] == {id: 1, p: '10'}", "json.items[0] == {'p': '10', id: 1}",
        "bytes startsWith hex('7b22')", "bytes startsWith '{'", "(bytes | count) > 10", "url endsWith '?y=1'",
        "redirects isEmpty", "version == 'HTTP/1.1'", "ip isIPv4", "duration < 1 and duration > 0",
        "sha256 matches '^[0-9a-f]{64}$'", "md5 | count == 32", "own.c.k == 5", "own.c == {k: 5}",
        // Values of the manifest.
        "count == 3", "${count} == 3", "${status} == 'mine'", "user.name == json.name", "list contains 2",
        "env.HOME == '/h'", "env(HOME) == '/h'", "env(NOPE, 'x') == 'x'", "env('HOME', 1) == '/h'",
        // Predicates.
        "json.id isNumber and json.id isInteger and json.id not isFloat", "json.price isFloat", "json.name isString",
        "json.ok isBoolean", "json.no isNull", "json.no exists", "json.tags isList", "json isObject", "bytes isBytes",
        "json.empty isEmpty", "'' isEmpty", "json.tags not isEmpty", "'2026-01-02' isDate", "'x' not isDate",
        "'01234567-89ab-cdef-0123-456789abcdef' isUUID", "'::1' isIPv6", "'::1' not isIPv4", "'http://a/' isURL",
        "'/a' not isURL", "json.name matches '^A.a$'", "json.name not matches 'x'", "'a' < 'b'", "json contains 'id'",
        "json not contains 'ID'", "json.tags contains 'a'", "'a' in json.tags", "'é' != 'e\u{301}'", "'it''s' == \"it's\"",
        "json.big == 9007199254740993", "json.big > 9007199254740992", "9007199254740992 < json.big",
        "any(json.tags)", "all(json.tags)", "not all([1, null])", "always()", "true", "not false", "not not true",
        // A missing value meets no predicate but `not exists`.
        "json.x not exists", "not json.x == 1", "not json.x != 1", "not json.x == null", "not json.x isNull",
        "not json.x not contains 'a'", "json.x not exists or json.x > 3", "json.x == 1 or json.id == 7",
        "not (json.x | count == 0)",
        // Filters.
        "json.tags | count == 3", "'aé' | count == 2", "json.tags | first == 'b'", "json.tags | last == 'b'",
        "json.tags | nth(1) == 'a'", "json.tags | nth(-2) == 'a'", "not (json.empty | first exists)",
        "json.tags | sort == ['a', 'b', 'b']", "json.tags | unique == ['b', 'a']", "[3, 1, 2] | sort == [1, 2, 3]",
        "json.items | map(it.id) == [1, 2]", "json.items | map(it.p | toInt) | sort == [9, 10]",
        "all(json.items | map(it.id > 0))", "json.items | map(it.x) == [null, null]",
        "[[1, 2], [3]] | map(it | map([it, it])) == [[[1, 1], [2, 2]], [[3, 3]]]", "[1] | map({n: it}) == [{n: 1}]",
        "json.t | split(',') == ['1', '2', '', '3']", "json.t | replace(',', '; ') == '1; 2; ; 3'",
        "'aaa' | replace('aa', 'b') == 'ba'", "'id=42;' | regex('id=([0-9]+)') == '42'",
        "'id=42;' | regex('id=([0-9]+)', 0) == 'id=42'", "'x' | regex('y') not exists", "' Ab ' | trim == 'Ab'",
        "'Ab' | lower == 'ab'", "'Ab' | upper == 'AB'", "'007' | toInt == 7", "'-12' | toInt == -12", "9.9 | toInt == 9",
        "'123456789012345678901234567890' | toInt == 123456789012345678901234567890", "'1.50' | toFloat == 1.5",
        "7 | toString == '7'", "[1, 'a'] | toString == '[1,\"a\"]'", "null | toString == 'null'", "'é' | base64 == 'w6k='",
        "'w6k' | base64Decode | toString == 'é'", "'-_8' | base64Decode | toHex == 'fbff'", "'a b' | urlEncode == 'a%20b'",
        "'a%20b' | urlDecode == 'a b'", "'&lt;&#233;&#xe9;&copy;&nope;&' | htmlUnescape == '<éé©&nope;&'",
        "hex('c4e3') | decode('gb2312') == '你'", "'[1]' | parseJSON == [1]", "json | jsonpath('$.items[*].id') == [1, 2]",
        "jsonpath('$.items[0].id') == 1",
        "'<a><b>1</b></a>' | xpath('number(//b)') == 1", "'<a><b>1</b></a>' | xpath('//b') == ['1']",
        "'2026-03-04T05:06:07Z' | date | format('%d.%m.%Y %H:%M') == '04.03.2026 05:06'",
        "'2026-03-04T05:06:07.5+01:00' | date < ('2026-03-04T05:06:07Z' | date)",
        "'Sun, 06 Nov 1994 08:49:37 GMT' | date | format('%s') == '784111777'", "784111777 | date isDate",
        "'Sun Nov  6 08:49:37 1994' isDate", "'Sunday, 06-Nov-94 08:49:37 GMT' isDate", "'1994-11-06T08:49:37+01:00' isDate",
        "'1-2-3' not isDate", "'1994-1-02' not isDate", "'1994-11-06 8:49:37' not isDate", "'94-11-06' not isDate",
        "'Sun Nov 6 08:49:37 1994' not isDate", "'Sunday Nov  6 08:49:37 1994' not isDate",
        "'Sun, 06 November 1994 08:49:37 GMT' not isDate", "'1/2/3' | date('%d/%m/%Y') isDate",
        "784111777 | date | format('%s %-s %%s %Es') == '784111777 784111777 %s 784111777'", "now() | format('%') == '%'",
        "'06/11/94' | date('%d/%m/%y') == ('1994-11-06' | date)", "now() | daysFromNow == 0",
        "now() > ('2020-01-01' | date)",
        // Functions.
        "uuid() isUUID", "uuid() != uuid()", "random(3, 3) == 3", "random(1, 2) in [1, 2]",
        "random(0.5, 1.5) < 1.6", "hex('') isEmpty",
    ]

    @Test(arguments: truths) func `an expression is true`(_ text: String) throws {
        #expect(try Self.value(text).isTrue, "\(text)")
    }

    @Test(
        arguments: [
            ("'a' > 1", "> compares two numbers, two strings or two dates"),
            ("json.tags > 1", "> compares two numbers, two strings or two dates"),
            ("1e999 < 2", "a number is too large to be compared"),
            ("7 | count", "count requires a list, an object, a string or bytes, but the value has the type number"),
            ("'a' | first", "first requires a list, but the value has the type string"),
            ("'x' | toInt", #"toInt: "x" is not an integer"#), ("'NaN' | toFloat", #"toFloat: "NaN" is not a number"#),
            ("'inf' | toFloat", #"toFloat: "inf" is not a number"#), ("1e999 | toInt", #"toInt: "1e999" is not an integer"#),
            ("'a' | split('')", "split cannot search for an empty string"),
            ("'%zz' | urlDecode", "urlDecode: the string is not percent-encoded UTF-8"),
            ("'!' | base64Decode", "base64Decode: the string is not Base64"),
            ("hex('f')", #"hex takes pairs of hexadecimal digits, not "f""#),
            ("hex('ff') | toString", "toString: the bytes are not UTF-8; use decode(CHARSET)"),
            ("hex('ff') | decode('utf-8')", "decode: the bytes are not text in UTF-8"),
            ("'31.02.2026' | date('%d.%m.%Y')", #"date: "31.02.2026" does not have the format "%d.%m.%Y""#),
            ("'x' | date", #"date: "x" is not a date of RFC 3339 or HTTP"#),
            ("[1, 'a'] | sort", "sort requires a list of numbers or of strings"),
            ("random(2, 1)", "random takes two numbers, the smaller one first"),
            ("random(-1.7e308, 1.7e308)", "random takes two numbers, the smaller one first"),
            ("env(NOPE)", "the environment variable NOPE is not set"),
            ("file('/nowhere')", #"cannot read "/nowhere": No such file or directory"#),
            ("file('/dev/zero')", #"cannot read "/dev/zero": it is not a regular file"#),
            ("file(json.name)", "file cannot use a value from a response in its path"),
            ("'a' | regex('a', 3)", "regex: the group 3 does not exist"),
            ("[bytes]", "a list or an object cannot contain bytes; use base64"),
            ("'{' | parseJSON", "the body is not JSON: expected a key in quotes, but the text ends"),
            ("7 contains 1", "contains cannot search for a value of type number in one of type number"),
            ("[1] | nth(9223372036854775807)", "nth takes a whole number"), ("[1] | nth(0.5)", "nth takes a whole number"),
            ("1e300 | date", "date requires a string, but the value has the type number"),
        ] as [(String, String?)]) func `an expression fails with a message`(_ text: String, _ message: String?)
    {
        do {
            let value = try Self.value(text)
            #expect(message == nil, "\(value)")
        } catch {
            #expect((error as? EvaluationError)?.message == message, "\(text)")
        }
    }

    @Test func `seconds since 1970 do not depend on the time zone`() throws {
        let zone = getenv("TZ").map { String(cString: $0) }
        setenv("TZ", "Asia/Kathmandu", 1)
        tzset()
        defer {
            if let zone { setenv("TZ", zone, 1) } else { unsetenv("TZ") }
            tzset()
        }
        #expect(try Self.value("784111777 | date | format('%s') == '784111777'").isTrue)
        #expect(try Self.value("'784111777' | date('%s') | format('%H:%M %z') == '08:49 +0000'").isTrue)
    }

    @Test func `the message of a failed filter shows a string completely or not at all`() throws {
        for (text, message) in [
            ("body | toInt", "toInt: a string of 300 characters is not an integer"),
            ("env.API_TOKEN | toInt", #"toInt: "***" is not an integer"#),
            ("env.CODE | replace('-', '') | date", #"date: "***" is not a date of RFC 3339 or HTTP"#),
            ("'x' | decode(env.CODE)", #"unknown charset "***""#),
            ("'x' matches env.CODE", #"invalid regular expression "***""#),
            ("json | jsonpath(env.CODE)", "the expression has no value"),
            ("'<a/>' | xpath(env.CODE)", "the expression has no value"), ("file(env.CODE)", "the expression has no value"),
        ] {
            var plan = WorkflowPlan()
            plan.environment = ["API_TOKEN": "hunter22", "CODE": "(open-sesame"]
            plan.secretValues = ["(open-sesame"]
            let response = Self.response(Data(("[\"" + String(repeating: "x", count: 296) + "\"]").utf8))
            let root = try ManifestDocument(parsing: Data("{}".utf8), name: "m").root
            plan.secretMarks = [(Reference(root: "env", path: ["CODE"]), root)]
            let scope = ResponseScope(examined: response, outer: ItemScope(values: RunValues(plan)))
            let error = #expect(throws: EvaluationError.self) {
                try ExpressionParser.parse(text, in: .response).value(in: scope)
            }
            #expect(error?.message == message, "\(text)")
        }
    }

    @Test(
        arguments: [
            ("", 0, "the expression is empty"), ("a ==", 4, "the expression ends too early"),
            ("(a", 2, #"a ")" is missing"#),
            ("a = 1", 2, #"unexpected "="; use == to compare"#), ("!a", 0, #"unexpected "!"; use not"#),
            ("a && b", 2, #"unexpected "&&"; use and"#), ("a || b", 2, #"unexpected "||"; use or"#),
            ("a isNumbr", 2, #"unknown predicate "isNumbr" (did you mean "isNumber"?)"#), ("a b", 2, #"unexpected "b""#),
            ("a | cont", 4, #"unknown filter "cont" (did you mean "count"?)"#), ("a |", 3, "a filter is missing after |"),
            ("a | nth", 4, "nth takes 1 argument"), ("a | count(1)", 4, "count takes no arguments"),
            ("a | regex('a', 1, 2)", 4, "regex takes 1 to 2 arguments"),
            ("count(a)", 0, #"unknown function "count"; count is a filter: VALUE | count"#),
            ("uid()", 0, #"unknown function "uid" (did you mean "uuid"?)"#), ("random(1)", 0, "random takes 2 arguments"),
            ("a matches '('", 10, #"invalid regular expression "(""#),
            ("a | regex('[')", 10, #"invalid regular expression "[""#),
            ("a | jsonpath('x')", 13, #"invalid JSONPath "x": it must begin with $ (character 1)"#),
            ("xpath('//[')", 6, #"invalid XPath "//[""#), ("a | decode('x-x')", 11, #"unknown charset "x-x""#),
            ("1 < 2 < 3", 6, #"unexpected "<"; combine two predicates with and"#), ("a not b", 6, #"unexpected "b""#),
            ("a not == 1", 6, "a predicate is missing after not"), ("'a", 0, "the closing quote is missing"),
            ("-", 0, #"invalid number "-""#), ("1.2.3", 0, #"invalid number "1.2.3""#), ("a..b", 0, #"invalid name "a..b""#),
            ("{a: 1, a: 2}", 7, #"duplicate key "a""#), ("{1: 2}", 1, "a key is missing"),
            ("[1,", 3, "the expression ends too early"),
            ("env(1)", 4, "env takes the name of an environment variable"), ("a\u{0}", 1, #"unexpected "?""#),
            ("a #", 2, ##"unexpected "#""##), ("${a", 0, #"unexpected "$""#), ("${a b}", 0, "invalid reference ${a b}"),
        ]) func `a mistake is found with its position`(_ text: String, _ offset: Int, _ message: String)
    {
        #expect(throws: ExpressionProblem(message: message, offset: offset)) {
            try ExpressionParser.parse(text, in: .response)
        }
    }

    @Test func `a condition has no response`() {
        #expect(throws: ExpressionProblem(message: "xpath requires a response", offset: 0)) {
            try ExpressionParser.parse("xpath('//a')")
        }
    }

    @Test func `deep and long expressions are rejected`() {
        for (open, close) in [("(", ")"), ("[", "]"), ("any(", ")"), ("{a: ", "}"), ("json[", "]"), ("1 | map(", ")")] {
            let text = String(repeating: open, count: 400) + "1" + String(repeating: close, count: 400)
            #expect(throws: ExpressionProblem.self) { try ExpressionParser.parse(text, in: .response) }
        }
        let long = Array(repeating: "1 == 1", count: 333).joined(separator: " and ")
        #expect(throws: ExpressionProblem.self) { try ExpressionParser.parse(long) }
        let longest = "'a'" + String(repeating: " | lower", count: 498)
        #expect(throws: Never.self) { try Self.value(longest) }
        #expect(throws: Never.self) { try Self.value(Array(repeating: "not true", count: 300).joined(separator: " or ")) }
    }
}
