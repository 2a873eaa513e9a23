import ConvoySerialization
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// The code that writes or describes manifests.
@Suite struct AuthoringTests {
    private static let schema = ExampleWorkflowTests.folder.appendingPathComponent("manifest.schema.json")

    @Test func `the schema in the repository matches the code`() throws {
        if ProcessInfo.processInfo.environment["CONVOY_RECORD"] == "1" {
            try Data(ManifestSchema.text.utf8).write(to: Self.schema)
        }
        #expect(try String(contentsOf: Self.schema, encoding: .utf8) == ManifestSchema.text, "CONVOY_RECORD=1 writes it")
    }

    @Test func `the schema contains exactly the supported keys`() throws {
        let json = ManifestSchema.json
        for (pointer, keys) in [
            (JSONPointer(tokens: ["properties"]), ManifestReader.keys),
            (JSONPointer(tokens: ["properties", "defaults", "properties"]), ManifestReader.defaultKeys),
            (JSONPointer(tokens: ["$defs", "request", "properties"]), RequestReader.keys),
            (JSONPointer(tokens: ["$defs", "expect", "properties"]), ExpectationReader.keys),
        ] {
            guard case .object(let object)? = json[pointer] else {
                Issue.record("\(pointer)")
                continue
            }
            #expect(Set(object.members.map(\.key)) == Set(keys))
        }
    }

    private func yaml(_ command: String) throws -> String {
        let text = RequestDraft.manifest(try CurlCommandLine.drafts(command))
        _ = try Workflow(parsing: Data(text.utf8), name: "m", inputs: WorkflowInputs(environment: ["PASSWORD": "x"]))
        return text.replacing("version: 1\nrequests:\n", with: "").replacing("  request:\n", with: "")
            .replacing("    ", with: "").replacing("  # ", with: "# ")
    }

    @Test(arguments: [
        ("curl https://a.test/x", "get: https://a.test/x\n"),
        (
            "curl 'https://a.test/x?a=b&c' -H 'Accept: a/b' -H \"X-Q: it's\" --compressed",
            "get: https://a.test/x?a=b&c\nheaders:\n  Accept: a/b\n  X-Q: \"it's\"\n"
        ),
        ("curl -X PUT a.test -d 'a=b c&d=%26'", "put: http://a.test\nform: {\"a\":\"b c\",\"d\":\"&\"}\n"),
        (
            #"curl https://a.test -H 'content-type: application/json' --data-raw $'{"a":"it\'s ${x}"}'"#,
            #"post: https://a.test\#njson: {"a":"it's $${x}"}\#n"#
        ),
        (
            "curl https://a.test \\\n  --json '[1, 2]' -u 'ada:pw'",
            "post: https://a.test\nheaders:\n  Accept: application/json\nbasic: {\"user\":\"ada\",\"password\":\"pw\"}\njson: [1,2]\n"
        ),
        (
            "curl -F a=b -F f=@/dev/null https://a.test",
            #"post: https://a.test\#nmultipart: {"a":"b","f":{"file":"/dev/null"}}\#n"#
        ),
        ("curl -G -d q=1 https://a.test/s -I -k -m 5", "head: https://a.test/s?q=1\ninsecure: true\nmax-time: 5\n"),
        ("curl -XDELETE https://a.test -b 'a=b; c=d'", "delete: https://a.test\nheaders:\n  Cookie: a=b; c=d\n"),
        (
            "curl -d 'plain text' -H 'Content-Type: text/x' https://a.test",
            "post: https://a.test\nheaders:\n  Content-Type: text/x\ntext: plain text\n"
        ),
        (
            "curl -sSLkXPUT -HAccept:x/y -A a/1 -e http://r.test a.test",
            "put: http://a.test\nheaders:\n  Accept: x/y\n  User-Agent: a/1\n  Referer: http://r.test\ninsecure: true\n"
        ),
        (
            #"curl -F 'a=@/dev/null;type=image/png;filename="x;y.png"' -F 'b=t;type=text/plain' --form-string 'c=@d;e' a.test"#,
            #"post: http://a.test\#nmultipart: {"a":{"file":"/dev/null","name":"x;y.png","type":"image/png"},"b":{"value":"t","type":"text/plain"},"c":"@d;e"}\#n"#
        ),
        ("curl -o out/x.bin https://a.test/f", "get: https://a.test/f\noutput: out/x.bin\n"),
        ("curl -o/dev/null -sw '%{http_code}' a.test", "# -w '%{http_code}': left out\nget: http://a.test\n"),
        ("curl -LO --output-dir d https://a.test/p/f.zip?x=1", "get: https://a.test/p/f.zip?x=1\noutput: d/f.zip\n"),
        (
            "curl -o /tmp/x a.test",
            "# -o '/tmp/x': left out; an output is below the directory of convoy run -d\nget: http://a.test\n"
        ),
        (
            "curl --data-urlencode 'q=a b&c' --data-urlencode '=x/y' a.test",
            "post: http://a.test\nheaders:\n  Content-Type: application/x-www-form-urlencoded\ntext: q=a+b%26c&x%2Fy\n"
        ),
        ("curl -G --data-urlencode 'q=a b' a.test/s", "get: http://a.test/s?q=a+b\n"),
        (
            "curl -u ada a.test",
            "# -u 'ada': curl asks for the password; give it as PASSWORD in the environment\nget: http://a.test\nbasic: {\"user\":\"ada\",\"password\":\"${env.PASSWORD}\"}\n"
        ),
        ("curl --digest -u ada:pw a.test", "get: http://a.test\nuser: ada:pw\n"),
        ("curl --json '{\"a\":1}' a.test", "post: http://a.test\nheaders:\n  Accept: application/json\njson: {\"a\":1}\n"),
        (
            "curl --compressed --max-time 2.5 --retry 4 --retry-max-time 60 --retry-delay 1 a.test",
            "# --retry-delay '1': left out\nget: http://a.test\nmax-time: 2.5\nretry: {\"count\":4,\"maxTime\":60}\n"
        ),
        (
            "curl --resolve a.test:443:127.0.0.1 --connect-to b.test:80:c.test:81 --limit-rate 2k -4 a.test",
            "get: http://a.test\nresolve: {\"a.test:443\":\"127.0.0.1\"}\nconnect-to: {\"b.test:80\":\"c.test:81\"}\nlimit-rate: 2048\nipv4: true\n"
        ),
        (
            "curl -b jar.txt -c jar.txt a.test",
            "# -b 'jar.txt': left out; for a file of cookies, give --cookie-jar to convoy run\n# -c 'jar.txt': left out\nget: http://a.test\n"
        ),
        (
            "curl -H 'Cookie: a=1' -b b=2 -H 'X: 1' -H 'X: 2' a.test",
            "# -b: left out; curl sends the Cookie field of -H only\nget: http://a.test\nheaders:\n  Cookie: a=1\n  X: \"1, 2\"\n"
        ),
        (
            "curl -d $'a\\u0085b' -H 'Content-Type: t/x' a.test",
            "post: http://a.test\nheaders:\n  Content-Type: t/x\ntext: \"a\\u0085b\"\n"
        ),
        (
            "curl -d $'\\ud83d\\ude00\\ud83d \\ude00' -H 'Content-Type: t/x' a.test # a 'comment\n",
            "post: http://a.test\nheaders:\n  Content-Type: t/x\ntext: \"\u{1F600}\u{FFFD} \u{FFFD}\"\n"
        ),
        ("curl a.test/#b # curl b", "get: http://a.test/\n"),
        ("curl a.test \\\r\n -H 'X: b'", "get: http://a.test\nheaders:\n  X: b\n"),
        ("curl a.test\n -H 'X: b'", "get: http://a.test\nheaders:\n  X: b\n"),
        (
            "curl ^\"http://a.test/?a=b^&c^\" ^\n  -H ^\"X: 100^%^\" ^\n  --data-raw ^\"^{^\\^\"a^\\^\":1^}^\" -H \"Content-Type: application/json\"",
            "post: http://a.test/?a=b&c\nheaders:\n  X: \"100%\"\njson: {\"a\":1}\n"
        ),
        (
            "curl \"http://a.test/it's\" ^\r\n  -H \"X: a\" ^\r\n  -H \"Y: 'b\"",
            "get: \"http://a.test/it's\"\nheaders:\n  X: a\n  Y: \"'b\"\n"
        ),
        ("curl a.test -H 'X: \"^\"'", "get: http://a.test\nheaders:\n  X: \"\\\"^\\\"\"\n"),
        ("curl a.test -H $'X: \\'^\"' -H \"Y: \\\"^\"", "get: http://a.test\nheaders:\n  X: \"'^\\\"\"\n  Y: \"\\\"^\"\n"),
        (
            "curl a.test -H 'Content-Type: text/x' -d 'a ^\nb \\'",
            "post: http://a.test\nheaders:\n  Content-Type: text/x\ntext: \"a ^\\nb \\\\\"\n"
        ),
        ("$ curl a.test", "get: http://a.test\n"), ("ada@host:~$ sudo curl.exe a.test", "get: http://a.test\n"),
        (
            "curl a.test | jq .secret > out.json",
            "# jq: left out; only curl commands are imported\nget: http://a.test\n"
        ),
        ("curl a.test > out", "# > out: left out; -o names an output file\nget: http://a.test\n"),
        (
            "curl --ntlm --proxy-user ada:secret --pass secret -u ada:secret a.test",
            "# --proxy-user: left out\n# --pass: left out\n# --ntlm: left out, and the login with it; convoy sends logins with Basic or Digest\nget: http://a.test\n"
        ),
        (
            "curl a.test/x -o f a.test/y -o f",
            "# -o 'f': left out; a later request has the same output\n  get-x:\nget: http://a.test/x\nonFailure: continue\n  get-y:\nget: http://a.test/y\noutput: f\nafter: [\"get-x\"]\n"
        ),
        (
            "curl 'a.test/{x,y}' -o 'out_#1'",
            "  get-x:\nget: http://a.test/x\noutput: out_x\nonFailure: continue\n  get-y:\nget: http://a.test/y\noutput: out_y\nafter: [\"get-x\"]\n"
        ),
        (
            "curl -d '\u{FFFF}\u{FFFE}\u{FEFF}' -H 'Content-Type: t/x' a.test",
            "post: http://a.test\nheaders:\n  Content-Type: t/x\ntext: \"\\uffff\\ufffe\\ufeff\"\n"
        ),
    ]) func `a curl command is converted to a request`(command: String, text: String) throws {
        #expect(try yaml(command) == text)
    }

    @Test func `an omitted curl option is named in a comment that keeps the manifest valid`() throws {
        let drafts = try CurlCommandLine.drafts("curl -z '\u{FFFF}a\nb' a.test")
        #expect(drafts.map(\.draft.notes.count) == [1])
        let text = RequestDraft.manifest(drafts)
        #expect(text.contains("\n  # -z ' a b'"))
        #expect(try Workflow(parsing: Data(text.utf8), name: "m").requestIDs == ["request"])
    }

    @Test(arguments: [
        ("curl", "The command has no URL."), ("curl 'a", "A quote is not closed."),
        ("curl --telnet-option a b", "The curl option --telnet-option has no equivalent in a manifest."),
        ("curl a -d", "-d has no value."),
        ("curl -ß a", "The curl option -ß has no equivalent in a manifest."), ("curl -sm x a", "-m is not a number: \"x\"."),
        ("curl a.test/?a=b&c=d", "An & ends a command. Put the URL in quotes."),
        ("curl $(cat url)", "A command substitution cannot be imported. Replace it with its value or with a variable."),
        ("curl \"${a:-b}\"", "\"${a:-b}\" cannot be imported. Replace it with its value or with ${NAME}."),
    ])
    func `a curl command that cannot be converted is an error with a reason`(command: String, message: String) {
        #expect(throws: CurlCommandLine.Problem(description: message)) { _ = try CurlCommandLine.drafts(command) }
    }

    @Test func `a HAR archive is converted to a manifest`() throws {
        let archive = """
            {"log": {"entries": [
              {"request": {"method": "GET", "url": "https://a.test/list?q=1#x", "headers": [{"name": "Host", "value": "a.test"}, {"name": ":path", "value": "/"}, {"name": "Accept", "value": "*/*"}, {"name": "Cookie", "value": "a=b"}]}, "response": {"status": 200}},
              {"request": {"method": "POST", "url": "https://a.test/list", "headers": [], "postData": {"mimeType": "application/json", "text": "{\\"a\\": 1}"}}, "response": {"status": 404}},
              {"request": {"method": "GET", "url": "https://a.test/list", "headers": []}, "response": {"status": 301}},
              {"request": {"method": "CONNECT", "url": "a.test:443", "headers": []}}]}}
            """
        let drafts = try #require(ArchiveReader.drafts(Data(archive.utf8)))
        let text = RequestDraft.manifest(drafts)
        #expect(
            text == """
                version: 1
                requests:
                  get-list:
                    get: https://a.test/list?q=1
                    headers:
                      Accept: "*/*"
                      Cookie: a=b
                  post-list:
                    post: https://a.test/list
                    json: {"a":1}
                    expect: {"status":404}
                    after: ["get-list"]
                  # CONNECT a.test:443: left out; it is not a request of http or https
                  get-list-2:
                    get: https://a.test/list
                    expect: {"status":301}
                    max-redirs: 0
                    after: ["post-list"]

                """)
        #expect(try Workflow(parsing: Data(text.utf8), name: "m").requestIDs == ["get-list", "post-list", "get-list-2"])
        #expect(ArchiveReader.drafts(Data("{}".utf8)) == nil)
    }

    @Test func `secrets become references to environment variables`() throws {
        var secrets = SecretVariables()
        var drafts = try CurlCommandLine.drafts(
            """
            curl -H 'Authorization: Bearer abc123' -b sid=1 'https://a.test/?api_key=k1&a=b' --json '{"password":"pw","pin":1234}'
            curl -u ada:pw https://a.test -H 'X-Api-Key: k1'
            """)
        secrets.hide(in: &drafts)
        #expect(secrets.values == ["TOKEN": "abc123", "COOKIE": "sid=1", "API_KEY": "k1", "PASSWORD": "pw"])
        #expect(
            RequestDraft.manifest(drafts) == #"""
                version: 1
                secrets: [env.API_KEY, env.TOKEN, env.COOKIE, env.PASSWORD]
                requests:
                  # api_key: not written here; give it as API_KEY in the environment of convoy run
                  # Authorization: not written here; give it as TOKEN in the environment of convoy run
                  # Cookie: not written here; give it as COOKIE in the environment of convoy run
                  # password: not written here; give it as PASSWORD in the environment of convoy run
                  # pin: written as it is, because a variable is a text and this is a number
                  post-root:
                    post: "https://a.test/?api_key=${env.API_KEY}&a=b"
                    headers:
                      Authorization: "Bearer ${env.TOKEN}"
                      Cookie: "${env.COOKIE}"
                      Accept: application/json
                    json: {"password":"${env.PASSWORD}","pin":1234}
                    onFailure: continue
                  # X-Api-Key: not written here; give it as API_KEY in the environment of convoy run
                  # the password of ada: not written here; give it as PASSWORD in the environment of convoy run
                  get-root:
                    get: https://a.test
                    headers:
                      X-Api-Key: "${env.API_KEY}"
                    basic: {"user":"ada","password":"${env.PASSWORD}"}
                    after: ["post-root"]

                """#)
    }

    @Test func `names of any length produce a readable manifest`() throws {
        let long = String(repeating: "é\t", count: 1000)
        var draft = RequestDraft(method: "POST", url: "http://a.test")
        draft.headers = [("X-" + String(repeating: "a", count: 2000), "b"), ("Y", "c")]
        draft.body = .json([long: [[long: 1]], "short": 2])
        let text = RequestDraft.manifest([("a", draft)])
        let root = try ManifestDocument(parsing: Data(text.utf8), name: "m").root.json
        #expect(root[["requests", "a", "json"]] == [long: [[long: 1]], "short": 2])
        #expect(root[["requests", "a", "headers"]] == [draft.headers[0].name: "b", "Y": "c"])
    }

    @Test func `imported requests have unique names and valid methods`() throws {
        let targets = ["GET a", "GET a-2", "GET a", "GET a", "@GET a", "G T a", "!GET a", "GET é", "GET "]
        let entries = targets.map { target in
            let end = target.lastIndex(of: " ") ?? target.endIndex
            return #"{"request": {"method": "\#(target[..<end])", "url": "https://a.test/\#(target[end...].dropFirst())"}}"#
        }
        let archive = #"{"log": {"entries": [\#(entries.joined(separator: ","))]}}"#
        let drafts = try #require(ArchiveReader.drafts(Data(archive.utf8)))
        let names = ["get-a", "get-a-2", "get-a-3", "get-a-4", "request-a", "get--", "get-root"]
        #expect(drafts.map(\.name) == names)
        let text = RequestDraft.manifest(drafts)
        #expect(try Workflow(parsing: Data(text.utf8), name: "m").requestIDs == names)
    }
}
