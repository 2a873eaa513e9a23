#if DEBUG || FUZZ
import ConvoySupport
import Foundation
import FoundationNetworking

@testable import ConvoyDownloads
@testable import ConvoyObjectStorage
@testable import ConvoyOperations
@testable import ConvoyRealtime
@testable import ConvoySecurity
@testable import ConvoySerialization
@testable import ConvoyWorkflow

/// A type of many kinds of values, for the decoder.
private struct Probe: Codable, Equatable {
    struct Inner: Codable, Equatable {
        var list: [Int8]?
        var map: [String: Double]?
    }
    var text: String?
    var whole: Int64?
    var small: UInt8?
    var fraction: Float?
    var flag: Bool?
    var inner: Inner?
    var inners: [Inner]?
    var date: Date?
    var data: Data?
    var url: URL?
    var decimal: Decimal?
}

/// Checks that a printed manifest can be parsed.
private func expectReadable(_ manifest: String) throws {
    do {
        _ = try ManifestDocument(parsing: Data(manifest.utf8), name: "fuzz.yaml")
    } catch {
        throw FuzzFinding(description: "what is printed cannot be read, \(error): \(manifest)")
    }
}

extension FuzzSubject {
    /// The parsers of complete documents: bodies and user files.
    static let documents: [FuzzSubject] = [
        FuzzSubject(
            "json",
            seeds: [
                "{\"a\": [1, -2.5e3, true, null, \"\\ud83d\\ude00\\n\"], \"b\": {\"\": {}}}",
                "[1e400, 0.1, 12345678901234567890]", "\"\u{301}\"",
            ]
        ) { bytes in
            let data = Data(bytes)
            guard let json = try? JSON(parsing: data, maximumDepth: 100) else { return }
            let written = json.description
            let again = try? JSON(parsing: Data(written.utf8), maximumDepth: 100)
            try expect(again == json, "written as \(written), it is read as \(String(describing: again))")
            _ = JSONParser.position(of: JSONPointer(tokens: ["a", "0"]), in: data)
            _ = JSONParser.keyPositions(of: JSONPointer(tokens: []), in: data)
        },
        FuzzSubject(
            "decoder",
            seeds: [
                "{\"text\": \"a\", \"whole\": 5, \"small\": 255, \"fraction\": 1.5, \"flag\": true, \"inner\": {\"list\": [1], \"map\": {\"a\": 1}}}",
                "{\"inners\": [{}, {\"list\": []}], \"date\": 1.5, \"data\": \"AAA=\", \"url\": \"a:b\", \"decimal\": 1.10}",
            ]
        ) { bytes in
            func decode(_ data: Data) -> (ours: Probe?, foundations: Probe?) {
                let ours = try? JSONDecoder().decodePlain(Probe.self, from: data, maximumDepth: 100)
                return (ours, ours == nil ? nil : try? JSONDecoder().decode(Probe.self, from: data))
            }
            var (ours, foundations) = decode(Data(bytes))
            if ours != nil, foundations == nil {
                // Foundation rejects 0e5, but accepts 0e+5.
                (ours, foundations) = decode(Data(text(bytes).replacing(/0[eE](?=[0-9])/, with: "0e+").utf8))
            }
            try expect(ours == foundations, "\(ours as Any) here, \(foundations as Any) by Foundation")
        },
        FuzzSubject("json-pointer", seeds: ["/a/0/~0~1", "#/a%20b", "", "/-"]) { bytes in
            if let pointer = JSONPointer(text(bytes)) {
                try expect(JSONPointer(pointer.description) == pointer, "\(pointer) is not read as it is written")
            }
            _ = JSONPointer(uriFragment: text(bytes))
        },
        FuzzSubject(
            "json-patch",
            seeds: [
                "[{\"op\": \"add\", \"path\": \"/a/-\", \"value\": 1}, {\"op\": \"move\", \"from\": \"/b\", \"path\": \"/c\"}]",
                "[{\"op\": \"test\", \"path\": \"\", \"value\": {}}, {\"op\": \"copy\", \"from\": \"\", \"path\": \"/b/x\"}]",
                "[{\"op\": \"remove\", \"path\": \"/a/0\"}, {\"op\": \"replace\", \"path\": \"/b\", \"value\": null}]",
            ]
        ) { bytes in
            let patch = try JSONPatch(parsing: Data(bytes), maximumDepth: 100)
            let document: JSON = ["a": [1, 2, 3], "b": ["x": ["y": "z"]]]
            var changed = document
            do {
                try patch.apply(to: &changed, limits: .init(maximumCopiedLength: 1 << 16, maximumDepth: 64))
            } catch {
                try expect(changed == document, "a patch that failed has changed the document")
            }
        },
        FuzzSubject(
            "xml",
            seeds: [
                "<?xml version=\"1.0\"?><a b=\"c\"><d>&lt;e</d><![CDATA[f]]></a>",
                "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
                "<ListBucketResult><Contents><Key>a</Key><Size>5</Size></Contents></ListBucketResult>",
            ]
        ) { bytes in
            _ = StorageXML(Data(bytes), limit: 1 << 20)
            _ = try? XMLInspection.document(of: Data(bytes), maximumDepth: 50)
        },
        FuzzSubject(
            "metalink",
            seeds: [
                """
                <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a/b.iso"><size>5</size>
                <hash type="sha-256">00</hash><pieces length="2" type="sha-1"><hash>00</hash></pieces>
                <url priority="1" location="de">https://example.com/b.iso</url><metaurl mediatype="torrent">x</metaurl></file></metalink>
                """,
                """
                <metalink version="3.0"><files><file name="a"><verification><hash type="md5">00</hash></verification>
                <resources maxconnections="1"><url type="http" preference="10">http://example.com/a</url></resources></file></files></metalink>
                """,
            ]
        ) { bytes in
            for file in try Metalink(parsing: Data(bytes)).files {
                try expect((file.size ?? 0) >= 0, "a negative size")
                try expect(
                    !file.name.hasPrefix("/")
                        && !file.name.utf8.split(separator: UInt8(ascii: "/")).contains { $0.elementsEqual("..".utf8) },
                    "a name that leads away: \(file.name)")
            }
        },
        FuzzSubject(
            "checksum-file", seeds: ["9f86d081884c7d65 *a\n", "SHA256 (a b) = 00\n", "\\00  a\\nb\n", "# comment\n"]
        ) { bytes in
            _ = try ChecksumFile(parsing: Data(bytes)).checksum(forFileNamed: "a")
        },
        FuzzSubject(
            "checksum", seeds: ["sha-256=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "md5=:AAAA:"]
        ) { bytes in
            let checksum = try Checksum(parsing: text(bytes))
            try expect(try Checksum(parsing: checksum.description) == checksum, "\(checksum) is not read as it is written")
        },
        FuzzSubject(
            "netrc",
            seeds: [
                "machine a login b password \"c d\" account e\ndefault login x password y\n",
                "macdef m\nx\n\nmachine a # b\n",
            ]
        ) { bytes in
            let netrc = try Netrc(text: text(bytes))
            _ = netrc.credential(forHost: "a")
        },
        FuzzSubject(
            "certificate",
            seeds: [
                "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
                "-----BEGIN TRUSTED CERTIFICATE-----\nMAA=\n",
            ]
        ) { bytes in
            let all = (try? Certificate.certificates(in: Data(bytes))) ?? []
            for certificate in all + [try? Certificate(derData: Data(bytes))].compactMap(\.self) {
                _ = certificate.matches(host: "example.com")
                _ = certificate.matches(host: "127.0.0.1")
                _ = String(describing: certificate)
                _ = certificate.derData
            }
        },
        FuzzSubject(
            "manifest",
            seeds: [
                """
                version: 1
                defaults: {base: "https://example.com/", timeout: 5}
                variables: {a: 1}
                requests:
                  login: {method: POST, url: login, json: {user: "${a}"}, capture: {token: "json:/t"}, expect: {status: 200}}
                  next: {url: "x?${token}", needs: [login], forEach: "${a}", when: "a == 1 and not b", output: "o/${item}"}
                """,
                "{\"version\": 1, \"requests\": {\"a\": {\"url\": \"http://h/\", \"pages\": {\"next\": \"link\"}}}}",
            ]
        ) { bytes in
            let workflow = try Workflow(parsing: Data(bytes), name: "fuzz.yaml", inputs: WorkflowInputs(environment: [:]))
            _ = workflow.complaint(aboutVariable: "a")
        },
        FuzzSubject(
            "expression",
            seeds: ["a.b[0] == 'x' and not (c > 1.5)", "length(a) + 1", "${a} ${b.c}", "upper(\"\\u00e9\") ?? null"]
        ) { bytes in
            let document = try ManifestDocument(parsing: Data(JSON.string(text(bytes)).description.utf8), name: "fuzz.json")
            _ = try? Template(document.root, "a text")
            _ = try Expression(document.root, "a condition")
        },
        FuzzSubject(
            "check",
            seeds: [
                "json.items | map(it.id | toInt) | sort == [1, 2] and headers.X-A not contains 'b'",
                "{a: [json[\"a b\"].c, -1.5e0], 'b': null} != json or not (status in [200, 404])",
                "body | split(',') | nth(-1) | replace('a', \"b\") | regex('(x+)+y', 1) isEmpty",
                "cookies.s.max-age >= random(1, 9) and jsonpath('$..id') | unique | count < 3",
                "'Sun, 06 Nov 1994 08:49:37 GMT' | date | format('%Y-%j') == hex('00ff') | base64 | base64Decode | decode('gb2312')",
                "xpath('count(//a)') isNumber and ('&lt;' | htmlUnescape | urlEncode | urlDecode) matches '^.$'",
                "'2026-01-02T03:04:05.6+07:00' | date('%Y-%m-%dT%H:%M:%S%z') | daysFromNow < 1 and (bytes | toHex | lower) exists",
            ]
        ) { bytes in
            let source = text(bytes)
            let expression = try ExpressionParser.parse(source, in: .response)
            let length = source.unicodeScalars.count
            try expect(
                expression.constants.allSatisfy { 0 <= $0.lowerBound && $0.upperBound <= length },
                "a constant outside the text")
            let body = Data(#"{"items": [{"id": "2"}, {"id": 1}], "a b": {"c": [true, null]}, "x": "xxxxxxxx"}"#.utf8)
            let response = ReceivedResponse(
                status: 200, fields: [("X-A", "1"), ("Set-Cookie", "s=1; Max-Age=60")], url: URL(string: "http://a/"),
                body: body, file: nil, byteCount: Int64(body.count), seconds: 1)
            let scope = ResponseScope(examined: response, outer: ItemScope(values: RunValues(WorkflowPlan())))
            // A fuzzer could name any file.
            guard !source.contains("file") else { return }
            let document = try ManifestDocument(parsing: Data(JSON.string(source).description.utf8), name: "fuzz.json")
            let check = CheckPlan(expression: expression, source: document.root)
            _ = CheckReport(of: check, in: scope)?.reason(hiding: ResponseSecrets(response, SecretMask()))
        },
        FuzzSubject(
            "hurl",
            seeds: [
                """
                # a comment
                POST https://a.test/{{path}}?x=1
                X-A: b # c
                [Query]
                n: {{id}}
                [Options]
                location: true
                variable: a=1
                {"id": {{id}}, "text": "{{id}} \\u00e9"}
                HTTP/1.1 200
                ETag: "x"
                [Captures]
                id: jsonpath "$.id" redact
                [Asserts]
                jsonpath "$.tags" split "," nth 1 not == 'a'
                body matches /^a\\/[b-d]/
                bytes startsWith hex,00 ff;
                """,
                "GET http://a/\n[Multipart]\nf: file,a b.txt; text/plain\n\nHTTP *\n```xml\n<a>{{newUuid}}</a>\n```\n\nPUT http://a/\n`x`\nHTTP 302\n<a>\n</a>\n",
            ]
        ) { bytes in
            let manifest = try HurlReader.manifest(Data(bytes))
            do {
                _ = try ManifestDocument(parsing: Data(manifest.utf8), name: "fuzz.yaml")
            } catch {
                throw FuzzFinding(description: "\(error), of \(manifest)")
            }
        },
        FuzzSubject(
            "postman",
            seeds: [
                #"""
                {"variable": [{"key": "h", "value": "http://{{a}}/"}], "item": [{"name": "A b", "item": [{"name": "x", "request": {
                "method": "POST", "header": [{"key": "X", "value": "{{$guid}}"}], "url": {"raw": "{{h}}/:id?q=1", "variable": [{"key":
                "id", "value": "{{v}}"}]}, "auth": {"type": "basic", "basic": [{"key": "username", "value": "u"}]}, "body": {"mode":
                "raw", "raw": "{"a": {{v}}}"}}, "event": [{"listen": "test", "script": {"exec": ["const d = pm.response.json();",
                "pm.test('t', () => { pm.expect(d.a[0]['b c'].length).to.not.be.above(-1.5) })", "pm.globals.set('v', d.x)"]}}]}]}]}
                """#,
                #"{"item": [{"request": "http://a/"}, {"request": {"url": "a", "body": {"mode": "formdata", "formdata": [{"key": "f", "type": "file", "src": ["x"]}]}}}]}"#,
            ]
        ) { bytes in
            let manifest = try PostmanReader.manifest(Data(bytes))
            do {
                _ = try ManifestDocument(parsing: Data(manifest.utf8), name: "fuzz.yaml")
            } catch {
                throw FuzzFinding(description: "\(error), of \(manifest)")
            }
        },
        FuzzSubject(
            "bruno",
            seeds: [
                """
                meta {
                  name: A b
                }
                post {
                  url: {{h}}/:id?x=1
                  body: json
                  auth: bearer
                }
                params:path {
                  id: {{v}}
                }
                headers {
                  ~X: 1
                  "Y": 2
                }
                auth:bearer {
                  token: {{process.env.T}}
                }
                body:json {
                  {"a": "{{$guid}}", "b": {{v}}}
                }
                assert {
                  res.body.a[0]["b c"]: in [1, x]
                  res.status: between 200, 299
                }
                vars:post-response {
                  v: res.body.x
                }
                tests {
                  test("t", function() { expect(res.getHeader('A')).to.match(/a\\/[b]/i); bru.setVar("w", `x`) });
                }
                """,
                "get {\n  url: http://a/\n}\nbody:multipart-form {\n  f: @file(a|b) @contentType(c/d)\n}\n",
            ]
        ) { bytes in
            let manifest = try BrunoReader.manifest([BrunoReader.Source(path: "a/b.bru", contents: Data(bytes))])
            do {
                _ = try ManifestDocument(parsing: Data(manifest.utf8), name: "fuzz.yaml")
            } catch {
                throw FuzzFinding(description: "\(error), of \(manifest)")
            }
        },
        FuzzSubject(
            "json-path",
            seeds: [
                "$.a[?@.b > 1 && !(@.c == 'x')]['d', \"\\u00e9\"]", "$..[*][-1:0:-2][1]", "$[?count(@..*) >= 2 || @.c]",
                "$.a[?match(@.c, '[x-z].') || search(@.c, \"(a|b)+\")]", "$[?length(value(@.a[0].c)) != -1.5e0]",
            ]
        ) { bytes in
            let json: JSON = ["a": [["b": 1, "c": "xyz"], ["b": 2, "d": [nil, true]]], "é": [1.5, "ab"]]
            let path = try JSONPath(text(bytes))
            let count = try path.values(in: json).count
            if path.query.isSingular { try expect(count <= 1, "\(count) values of a query that selects one") }
        },
        FuzzSubject(
            "printed-curl",
            seeds: [
                "POST\nhttps://example.com/a?b=c\nContent-Type: application/json\nX-It's: \"a\"\n\n{\"a\": \"it's\"}",
                "GET\nhttp://h:8080/[1-3]{a,b}\nAccept: *\n", "HEAD\nhttps://h/\n",
                "PUT\nhttps://h/\nExpect: x\n\n@a\n-b\u{1}", "POST\nhttps://h/\nX: \"^\"\n\n\"^\" ^\n",
            ]
        ) { bytes in
            let head = bytes.split(separator: 0x0A, maxSplits: 2, omittingEmptySubsequences: false)
            guard head.count == 3, let url = URL(string: text(head[1])), Target(url) != nil else { return }
            var request = URLRequest(url: url)
            request.httpMethod = text(head[0])
            let end = head[2].firstRange(of: [0x0A, 0x0A])
            for field in fields(Array(end.map { head[2][..<$0.lowerBound] } ?? head[2])) {
                request.setValue(field.value, forHTTPHeaderField: field.name)
            }
            if let end { request.httpBody = Data(head[2][end.upperBound...]) }
            let method = request.httpMethod ?? ""
            guard HTTPSyntax.isToken(method), method != "GET" || end == nil else { return }
            let command = HTTPRequestOperation(request: request).curlCommand(includingSecrets: true)
            // Bytes that are not text are written with a different command.
            guard command.hasPrefix("curl "), !command.contains("\"$(printf ") else { return }
            let draft: RequestDraft
            do {
                let drafts = try CurlCommandLine.drafts(command)
                try expect(drafts.count == 1, "several requests, of \(command)")
                draft = drafts[0].draft
            } catch {
                throw FuzzFinding(description: "\(error), of \(command)")
            }
            let address = String(url.absoluteString.prefix { $0 != "#" })
            let isSame = draft.url == URLUserInfo.removed(from: address) || draft.url == address
            try expect(draft.method == method && isSame, "\(draft), of \(command)")
            for (name, value) in request.allHTTPHeaderFields ?? [:]
            where HTTPSyntax.isToken(name) && HTTPSyntax.isFieldValue(value) {
                let value = value.trimmingCharacters(in: CharacterSet(charactersIn: " \t"))
                if ["content-length", "transfer-encoding", "proxy-authorization"].contains(name.lowercased()) { continue }
                try expect(
                    draft.headers.contains { $0.name == name && $0.value == value } || value.isEmpty || draft.login != nil,
                    "without \(name): \(value), of \(command)")
            }
            if let body = request.httpBody, !body.isEmpty, case .text(let shown)? = draft.body {
                try expect(Data(shown.utf8) == body, "another body, of \(command)")
            }
        },
        FuzzSubject(
            "archive",
            seeds: [
                """
                {"log": {"entries": [
                {"request": {"method": "GET", "url": "https://h/a#b", "headers": [{"name": "A", "value": "b: c"}]}},
                {"request": {"method": "GET", "url": "https://h/a-2"}, "response": {"status": 404}},
                {"request": {"method": "POST", "url": "http://h/a b", "postData": {"mimeType": "application/json", "text": "{}"}}}]}}
                """
            ]
        ) { bytes in
            guard let drafts = ArchiveReader.drafts(Data(bytes)) else { return }
            try expect(Set(drafts.map(\.name)).count == drafts.count, "two requests of one name")
            if !drafts.isEmpty { try expectReadable(RequestDraft.manifest(drafts)) }
        },
        FuzzSubject(
            "captured-body",
            seeds: [
                "<!DOCTYPE a [<!ENTITY b \"ccc\"><!ENTITY d \"&b;&b;\">]><a xmlns:n=\"x\" href=\"&d;\">&d;<n:b>t</n:b></a>",
                "<p class=x><a href='y'>z<br></p><script>1<2</script>&amp;&nbsp;",
                "{\"a\": [{\"b\": {\"c\": 1}}, {\"b\": []}]}",
            ]
        ) { bytes in
            let data = Data(bytes)
            for expression in ["//@href | //*[@class='x']", "string(/)", "count(//a) > 1"] {
                for isHTML in [false, true] { _ = try? XPath.values(of: expression, in: data, label: nil, isHTML: isHTML) }
            }
            let json = try JSON(parsing: data, maximumDepth: 100)
            for path in ["/a/*/b/*", "/*", "/a/0", ""] {
                let found = try JSONLocation(path).finding(in: json)
                if found.value == nil { try expect(found.isPartial, "no value of \(path), and none is missing") }
            }
        },
        FuzzSubject(
            "curl-command",
            seeds: [
                "curl -X POST 'https://example.com/a' -H \"A: b\" --data-raw '{\"a\":1}' -u user:pass -k -L",
                "curl $'https://h/\\'\\u00e9' -F a=@b -G -d x=1 --compressed", "curl -sSLo out https://h/ \\\n -b 'a=b'",
            ]
        ) { bytes in
            try expectReadable(RequestDraft.manifest(try CurlCommandLine.drafts(text(bytes))))
        },
    ]
}
#endif
