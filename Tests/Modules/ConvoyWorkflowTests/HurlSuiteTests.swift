import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// What Hurl's own tests check, as manifests. Each manifest is written from the description of a test of Hurl.
@Suite(.serialized) struct HurlSuiteTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let requests: String

        init(_ name: String, _ requests: String) { (self.name, self.requests) = (name, requests) }

        var testDescription: String { name }
    }

    static let cases = [
        Case(
            "assert_header",
            "a: {get: headers, expect: [headers.X-One == '1', headers.X-One matches '^[0-9]$', headers.X-Empty isEmpty, headers.Nope not exists, 'headers(''X-Many'') == [''a'', ''b'']', 'headers(''X-Many'') | count == 2', headers.X-Many contains 'b', headers.Date | date < now()]}"
        ),
        Case(
            "assert_json",
            "a: {get: json, expect: [json.count == 5, json.count != 6, json.count > 4, json.count <= 5, json.count isInteger, json.ratio isFloat, json.success == true, json.success isBoolean, json.none isNull, json.message isString, json.message startsWith '0', json.errors | count == 2, 'json.errors[0].id == ''error1''', json.errors isList, json.user isObject, json.empty isEmpty, json.nope not exists, 'json.user == {name: ''Bob'', ''a b'': 1}', json.id isUUID, json.date isDate, json.ip isIPv4]}"
        ),
        Case(
            "assert_match",
            "a: {get: json, expect: [json.message matches '^[0-9]+ errors$', json.message not matches 'x', json.date matches '^[0-9]{4}-[0-9]{2}']}"
        ),
        Case(
            "assert_regex",
            "a: {get: multilines, expect: ['body | regex(''Age: ([0-9]+)'') == ''42''', 'body | regex(''Nope: (.*)'') not exists']}"
        ),
        Case(
            "assert_xpath",
            "a: {get: page, expect: [\"xpath('string(//title)') == 'Shóp'\", \"xpath('//p') == ['one', 'two', 'three']\", \"xpath('count(//p)') == 3\", \"xpath('boolean(//p)') == true\", \"xpath('//nope') isEmpty\"]}\nb: {get: xml, expect: [\"xpath('string(//f:entry)') == 'b'\", \"xpath('string(//_:entry/@id)') == '1'\"]}"
        ),
        Case(
            "assert_body",
            "a: {get: hello, expect: [body == 'Hello World!', body not contains 'x', \"body == file('DIR/hello.txt')\"]}"),
        Case(
            "bytes",
            "a: {get: bytes, expect: [bytes == hex('010203ff'), bytes startsWith hex('01'), bytes contains hex('0203'), bytes | count == 4, bytes | toHex == '010203ff', sha256 matches '^[0-9a-f]{64}$', md5 isString]}"
        ),
        Case("bytes_empty", "a: {get: empty, expect: [bytes isEmpty, bytes | count == 0, body == '']}"),
        Case(
            "captures",
            "a: {get: json, capture: {count: json:/count, first: 'json:$.errors[0].id', all: 'json:$.errors[*].code', status_code: status, type: header:Content-Type, body_text: 'text:\"message\": \"([^\"]*)\"'}, expect: [a.count == 5, a.first == 'error1', 'a.all == [1, 2]', a.body_text == '0 errors']}\nb: {get: \"echo/${a.first}?n=${a.count}\", expect: [json.target == '/echo/error1?n=5', \"${a.type} contains 'json'\"]}"
        ),
        Case(
            "filter",
            "a: {get: json, expect: [json.list | split(',') | count == 3, json.list | split(',') | nth(1) == 'b', json.list | replace(',', '-') == 'a-b-c', json.base64 | base64Decode | toString == 'Hello', json.message | base64 == 'MCBlcnJvcnM=', json.url | urlDecode endsWith 'a b', json.message | urlEncode == '0%20errors', json.html | htmlUnescape == '<b>', json.message | regex('([0-9]+)') | toInt == 0, json.ratio | toString == '0.5', json.date | date | format('%Y') == '2026', json.errors | map(it.code) == [1, 2], json.errors | last | toString contains 'error2', json.date | date | daysFromNow isInteger, json.books | map(it.price) | sort | first == 8.95]}"
        ),
        Case(
            "cookies",
            "a: {get: cookies/set, expect: [cookies.a == '1', cookies.b == 'two', cookies.a.max-age == 3600, cookies.a.httponly, cookies.a.samesite == 'Lax', cookies.a.path == '/', cookies.a.secure, cookies.b.secure not exists, cookies.c not exists]}\nb: {get: echo, after: a, expect: [json.headers.Cookie contains 'b=two']}"
        ),
        Case("cookie_storage", "a: {get: echo, expect: [json.headers.Cookie == 'first=start']}"),
        Case(
            "cookie_jar",
            "a: {get: cookies/set}\nb: {get: cookies/clear, after: a}\nc: {get: echo, after: b, expect: [json.headers.Cookie not exists]}"
        ),
        Case(
            "no_cookie_store",
            "a: {get: cookies/set, expect: [cookies.b == 'two']}\nb: {get: echo, after: a, headers: {Cookie: own=1}, expect: [json.headers.Cookie contains 'own=1']}"
        ),
        Case(
            "follow_redirect",
            "a: {get: hop/2, expect: [status == 200, url endsWith '/hop/0', redirects | count == 2, 'redirects[0].status == 302']}\nb: {get: hop/1, max-redirs: 0, expect: [status == 302, headers.Location == '/hop/0', redirects isEmpty]}"
        ),
        Case(
            "assert_redirects",
            "a: {get: hop/2, expect: ['redirects[0].location endsWith ''/hop/1''', '(redirects | last).location endsWith ''/hop/0''']}"
        ),
        Case("max_redirect", "a: {get: hop/2, max-redirs: 2, expect: [body == 'done']}"),
        Case(
            "form_params",
            "a: {post: echo, form: {a: '1', b: 'x y', c: '&=', d: [1, 2]}, expect: [json.text == 'a=1&b=x%20y&c=%26%3D&d=1&d=2', json.headers.Content-Type startsWith 'application/x-www-form-urlencoded']}"
        ),
        Case(
            "function",
            "a: {post: echo, json: {id: '${uuid()}', at: '${now()}'}, expect: ['json.text | parseJSON | jsonpath(''$.id'') isUUID', 'json.text | parseJSON | jsonpath(''$.at'') isDate']}"
        ),
        Case(
            "random_function",
            "a: {post: echo, json: '${random(1, 6)}', expect: [json.text | toInt >= 1, json.text | toInt <= 6]}"),
        Case(
            "graphql",
            "a: {post: graphql, json: {query: '{ human(id: \"1000\") { name } }', variables: {a: 1}}, expect: [json.data.human.name == 'Luke']}"
        ),
        Case(
            "gb2312",
            "a: {get: gb2312, expect: [body == '你好', bytes | decode('gb2312') == '你好', bytes startsWith hex('c4e3')]}"),
        Case(
            "charset",
            "a: {get: latin1, expect: [body == 'café', bytes | count == 4]}\nb: {get: utf8, expect: [body contains 'café']}"),
        Case(
            "headers",
            "a: {get: echo, headers: {X-A: '1', X-B: 'a,b', Fruit: [Raspberry, Apple, Banana, Grape]}, expect: [json.headers.X-A == '1', json.headers.X-B == 'a,b', \"json.headers.Fruit == 'Raspberry, Apple, Banana, Grape'\"]}"
        ),
        Case("header_option", "a: {get: echo, headers: {X-A: [one, two]}, expect: [\"json.headers.X-A == 'one, two'\"]}"),
        Case("empty_value_header", "a: {get: echo, headers: {X-A: ''}, expect: [json.headers.X-A == '']}"),
        Case(
            "basic_authentication",
            "a: {get: basic, basic: {user: bob, password: secret}, expect: [body == 'in']}\nb: {get: basic, headers: {Authorization: Basic Ym9iOnNlY3JldA==}, expect: {status: 200}}\nc: {get: basic, expect: {status: 401}}"
        ),
        Case(
            "multipart_form_data",
            "a: {post: echo, multipart: {k: v, f: {file: 'DIR/hello.txt'}, g: {file: 'DIR/hello.txt', type: text/x, name: other.txt}}, expect: ['json.text contains ''name=\"k\"''', 'json.text contains ''filename=\"hello.txt\"''', 'json.text contains ''Content-Type: text/x''', 'json.text contains ''filename=\"other.txt\"''']}"
        ),
        Case("retry", "a: {get: retry, poll: {until: status == 200 and body == 'ready', every: 5ms, for: 10s}}"),
        Case(
            "querystring_params",
            "a: {get: echo, query: {a: '1', b: x y, c: '=&', d: [1, 2], e: ''}, expect: [json.target == '/echo?a=1&b=x%20y&c=%3D%26&d=1&d=2&e=']}"
        ),
        Case(
            "post_json",
            "a: {get: json, capture: {name: json:/user/name, n: json:/count, all: json:/errors}}\nb: {post: echo, json: {name: \"${a.name}\", n: \"${a.n}\", all: \"${a.all}\", b: [true, null, 1.50], \"${a.name}\": {}}, expect: ['json.text == ''{\"name\":\"Bob\",\"n\":5,\"all\":[{\"id\":\"error1\",\"code\":1},{\"id\":\"error2\",\"code\":2}],\"b\":[true,null,1.50],\"Bob\":{}}''']}"
        ),
        Case(
            "post_multilines",
            "a: {post: echo, text: \"name,age\\nbob,1\\n\", expect: [\"json.text == file('DIR/lines.txt')\"]}"),
        Case(
            "post_xml",
            "a: {post: echo, text: '<a><b>é</b></a>', headers: {Content-Type: application/xml}, expect: ['json.text == ''<a><b>é</b></a>''', json.headers.Content-Type == 'application/xml']}"
        ),
        Case("post_bytes", "a: {post: echo, file: 'DIR/bytes', expect: [json.base64 == 'AQID/w==', json.length == 4]}"),
        Case("post_bytes_null", "a: {post: echo, file: 'DIR/null', expect: [json.base64 == 'AAAA']}"),
        Case(
            "post_base64",
            "a: {post: echo, text: \"${'TG9yZW0gaXBzdW0=' | base64Decode | toString}\", expect: [json.text == 'Lorem ipsum']}"
        ),
        Case("post_hex", "a: {post: echo, text: \"${hex('48656c6c6f') | toString}\", expect: [json.text == 'Hello']}"),
        Case(
            "post_file",
            "a: {post: echo, file: 'DIR/hello.txt', expect: [json.text == 'Hello World!', json.headers.Content-Type == 'text/plain']}"
        ),
        Case(
            "utf8",
            "a: {get: utf8, expect: [body == 'café 你好', body | count == 7, body startsWith 'caf']}\nb: {post: echo, text: 你好, expect: [json.text == '你好']}"
        ),
        Case(
            "variables",
            "a: {post: echo, json: {name: \"${name}\", age: \"${age}\", ok: \"${ok}\", none: \"${none}\", h: \"${height}\"}, expect: ['json.text == ''{\"name\":\"Jennifer\",\"age\":30,\"ok\":true,\"none\":null,\"h\":1.70}''', age == 30, name isString]}"
        ),
        Case(
            "user_agent",
            "a: {get: echo, headers: {User-Agent: test/1.0}, expect: [json.headers.User-Agent == 'test/1.0']}\nb: {get: echo, headers: {User-Agent: ''}}"
        ),
        Case("skip", "a: {get: status/500, when: false}\nb: {get: hello}"),
        Case("delete", "a: {delete: echo/1, expect: [json.method == 'DELETE']}"),
        Case(
            "patch", "a: {patch: echo, json: {a: 1}, headers: {X-A: p}, expect: [json.method == 'PATCH', json.length == 7]}"),
        Case(
            "output_option",
            "a: {get: hello, output: out/hello.txt}\nb: {get: hello, after: a, expect: [\"body == 'Hello World!'\"]}"),
        Case(
            "assert_status_code",
            "a: {get: status/404, expect: [status == 404]}\nb: {get: status/201, expect: {status: [200, 201]}}\nc: {get: status/204, expect: [status in [204, 205], version startsWith 'HTTP/']}"
        ),
        Case(
            "content_type",
            "a: {post: echo, json: {}, expect: [json.headers.Content-Type == 'application/json']}\nb: {post: echo, text: x, headers: {Content-Type: text/x}, expect: [json.headers.Content-Type == 'text/x']}\nc: {post: echo, multipart: [{a: '1'}, {a: '2'}], expect: [json.headers.Content-Type startsWith 'multipart/form-data']}"
        ),
        Case(
            "key_template",
            "a: {post: echo, query: {\"${name}\": 1}, form: {\"${name}_x\": y}, expect: [json.target == '/echo?Jennifer=1', json.text == 'Jennifer_x=y']}"
        ),
        Case(
            "jsonpath_types",
            "a: {get: json, expect: [\"jsonpath('$.count') == 5\", \"jsonpath('$.errors[?@.code == 1].id') == ['error1']\", \"jsonpath('$.nope') not exists\", \"jsonpath('$.errors[*].nope') == []\", \"jsonpath('$.none') isNull\"]}"
        ),
        Case(
            "jsonpath_store",
            "a: {get: json, expect: [\"jsonpath('$.books[*].price') == [8.95, 22.99]\", \"jsonpath('$..price') | count == 2\", \"jsonpath('$.books[?@.price < 10].price') == [8.95]\", \"jsonpath('$.books[-1].price') == 22.99\", \"jsonpath('$.books[0,1].price') | last == 22.99\", \"jsonpath('$.books[?length(@.tags) == 1].price') == [8.95]\", \"jsonpath('$.books[:1].price') == [8.95]\", \"json['dot.ted'] == 2\", \"json.user['a b'] == 1\"]}"
        ),
        Case(
            "json_output",
            "a: {get: json, capture: {errors: json:/errors}, expect: ['a.errors | count == 2', 'a.errors[1].id == ''error2''']}"
        ),
        Case("add_header", "a: {get: echo, headers: {X-A: one}, expect: [json.headers.X-A == 'one']}"),
        Case(
            "connect_to",
            "a: {get: 'http://foo.test:80/hello', connect-to: {'foo.test:80': 'AUTHORITY'}, expect: [body == 'Hello World!']}"
        ),
        Case(
            "resolve",
            "a: {get: 'http://foo.test:PORT/hello', resolve: {'foo.test:PORT': 127.0.0.1}, expect: [body == 'Hello World!']}"
        ),
        Case("entry", "a: {get: hello}\nb: {get: hello, after: a}\nc: {get: hello, after: b}"),
        Case(
            "float",
            "a: {get: floats, expect: [json.a == 3.333333333333333, json.a != 3.3, json.b == 100000000000000000000, json.c == 100, json.d < 0, json.e == 1]}"
        ),
        Case(
            "html_report_injection",
            "a: {get: \"echo?q=<script>alert(1)</script>\", expect: [status == 200]}".replacing(
                "<script>alert(1)</script>", with: "%3Cscript%3E")),
        Case("ip_query", "a: {get: hello, expect: [ip == '127.0.0.1', ip isIPv4, ip not isIPv6]}"),
        Case(
            "multilines",
            "a: {get: multilines, expect: [\"body == file('DIR/person.txt')\", \"body | regex('^.*') == 'Name: Bob'\"]}"),
        Case("non_utf8", "a: {get: not-utf8, expect: [bytes == hex('61ff62'), bytes | count == 3]}"),
        Case("env_var", "a: {get: \"echo?n=${env.NAME}\", expect: [json.target endsWith 'n=Ada']}"),
        Case("color", "a: {head: hello, expect: [status == 200, bytes isEmpty]}"),
        Case(
            "secret",
            "a: {get: \"echo?key=${env.SECRET}\", json: {password: \"${env.SECRET}\"}, expect: [json.target endsWith env.SECRET, json.method == 'GET', json.text contains env.SECRET]}"
        ),
        Case(
            "hello",
            "a: {get: hello, expect: [status == 200, body == 'Hello World!', body | count == 12, headers.Content-Type startsWith 'text/plain', duration < 30]}"
        ),
        Case(
            "get_large",
            "a: {get: large, output: large.bin, expect: {bytes: 8MiB}}\nb: {get: large, expect: [bytes | count == 8388608]}"),
        Case("delay_option", "a: {get: hello, delay: 100ms}\nb: {get: slow, expect: [duration >= 0.1]}"),
        Case("encoding", "a: {get: gzip, expect: [body == 'Hello', bytes | count == 5]}"),
        Case(
            "compressed",
            "a: {get: gzip, headers: {Accept-Encoding: gzip}, expect: [status == 200]}\nb: {get: hello, expect: [body | count == 12]}"
        ),
        Case("expect", "a: {post: echo, text: x, headers: {Expect: 100-continue}, expect: [json.text == 'x']}"),
        Case("limit_rate", "a: {get: hello, limit-rate: 1MB, expect: [body == 'Hello World!']}"),
        Case("discard_body", "a: {get: large, expect: {status: 200}}"),
        Case(
            "digest", "a: {get: digest, user: 'bob:secret', expect: [body == 'in']}\nb: {get: digest, expect: {status: 401}}"
        ),
        Case(
            "follow_redirect_trusted",
            "a: {get: trusted, location-trusted: true, basic: {user: bob, password: secret}, expect: [body == 'in', url startsWith 'http://localhost:', redirects | count == 1]}\nb: {get: trusted, basic: {user: bob, password: secret}, expect: {status: 401}}"
        ),
        Case(
            "aws_sigv4",
            "a: {post: signed, text: x, aws-sigv4: 'aws:amz:eu-central-1:foo', user: 'someAccessKeyId:someSecretKey', expect: [body == 'signed for eu-central-1/foo']}"
        ),
        Case(
            "unix_socket",
            "a: {get: 'http://any.invalid/hello', unix-socket: 'DIR/socket', expect: [body startsWith 'GET /hello HTTP/1.1', body contains 'any.invalid']}"
        ),
        Case(
            "http_version_option",
            "a: {get: echo, http1.0: true, expect: [json.version == 'HTTP/1.0', version == 'HTTP/1.1']}\nb: {get: echo, http1.1: true, expect: [json.version == 'HTTP/1.1']}\nc: {get: echo, expect: [json.version == 'HTTP/1.1']}\nd: {post: echo, file: 'DIR/hello.txt', http1.0: true, headers: {Expect: 100-continue}, expect: [json.version == 'HTTP/1.0', json.text == 'Hello World!', json.headers.Expect not exists]}\ne: {post: echo, multipart: {f: {file: 'DIR/hello.txt'}}, http1.0: true, expect: [json.version == 'HTTP/1.0', json.text contains 'Hello World!']}"
        ),
        Case(
            "path_as_is",
            "a: {get: echo/../hello, path-as-is: true, expect: [json.target == '/echo/../hello', url endsWith '/echo/../hello']}\nb: {get: 'http://AUTHORITY/echo/./a/../b', path-as-is: true, expect: [json.target == '/echo/./a/../b']}\nc: {get: echo/../hello, expect: [body == 'Hello World!', url endsWith '/hello']}\nd: {get: a/../digest, path-as-is: true, user: 'bob:secret', expect: [body == 'in']}"
        ),
        Case("ignore_asserts", "a: {get: status/500, expect: [status == 200, body == 'Hello World!']}"),
    ]

    @Test(arguments: cases) func `a test of Hurl passes as a manifest`(_ test: Case) async throws {
        let server = try HurlSuiteServer.make(), directory = try TemporaryDirectory()
        for (name, data) in [
            ("hello.txt", Data("Hello World!".utf8)), ("lines.txt", Data("name,age\nbob,1\n".utf8)),
            ("person.txt", Data("Name: Bob\nAge: 42\n".utf8)), ("bytes", Data([1, 2, 3, 0xFF])), ("null", Data(count: 3)),
        ] { try directory.write(data, to: name) }
        let authority = "127.0.0.1:\(server.url.port ?? 0)"
        let cookies = test.name == "cookie_storage" ? "defaults: {cookies: {first: start}}\n" : ""
        let text = """
            baseURL: \(server.url.absoluteString)
            variables: {name: Jennifer, age: 30, ok: true, height: 1.70, holder: {none: null}}
            secrets: [env.SECRET]
            \(cookies)requests:

            """
            + test.requests.quotingChecks.replacing("${none}", with: "${holder.none}").replacing(
                "DIR", with: directory.url.path
            )
            .replacing("AUTHORITY", with: authority).replacing("PORT", with: "\(server.url.port ?? 0)")
            .split(separator: "\n").map { "  \($0)\n" }.joined()
        let inputs = WorkflowInputs(environment: ["NAME": "Ada", "SECRET": "s3cr3t-key"])
        var workflow = try Workflow(parsing: Data(text.utf8), name: "\(test.name).yaml", inputs: inputs)
        if test.name == "ignore_asserts" { workflow = workflow.acceptingAllResponses() }
        let unix = test.name == "unix_socket" ? try UnixServer(directory.file("socket").path) : nil
        defer { unix?.stop() }
        var options = WorkflowRun.Options()
        options.directory = directory.url
        let result = await (try WorkflowRun(workflow, options: options)).run()
        #expect(result.failures.isEmpty, "\(result.failures.flatMap(\.locatedFailures)) \(text)")
        var report = WorkflowReport()
        report.add(result, of: workflow)
        #expect(!(report.html + report.json + report.junit + report.tap).contains("s3cr3t-key"))
    }

    @Test func `every test has another name`() {
        #expect(Set(Self.cases.map(\.name)).count == Self.cases.count)
    }
}

extension String {
    /// Quotes the elements of lists of checks, whose brackets and commas would end them in YAML.
    fileprivate var quotingChecks: String {
        split(separator: "\n").map { line -> String in
            guard let start = line.range(of: "expect: ["), line.hasSuffix("]}") else { return String(line) }
            var elements = [""], quote: Character?, depth = 0
            for character in line[start.upperBound...].dropLast(2) {
                if let open = quote {
                    if character == open { quote = nil }
                } else if "'\"".contains(character) {
                    quote = character
                } else if "([{".contains(character) {
                    depth += 1
                } else if ")]}".contains(character) {
                    depth -= 1
                } else if character == ",", depth == 0 {
                    elements.append("")
                    continue
                }
                elements[elements.count - 1].append(character)
            }
            let quoted = elements.map { element -> String in
                let text = element.trimmingCharacters(in: .whitespaces)
                return text.hasPrefix("'") || text.hasPrefix("\"") ? text : "\"\(text)\""
            }
            return "\(line[..<start.upperBound])\(quoted.joined(separator: ", "))]}"
        }.joined(separator: "\n")
    }
}
