import Foundation
import Testing

@testable import ConvoyWorkflow

/// Invalid manifests, each with its complete error message.
@Suite struct WrongManifestTests {
    struct Mistake: Sendable, CustomTestStringConvertible {
        var text: String
        var message: String
        var testDescription: String { message }

        init(_ text: String, _ message: String) { (self.text, self.message) = (text, message) }
    }

    private static let base = "baseURL: http://a.test/\nrequests:\n"

    private static func one(_ lines: String) -> String { base + "  a:\n    get: x\n" + lines }

    private static let outputs = [
        Mistake(
            base + "  a: {get: x, capture: {status: 'json:/s'}}",
            #"m.yaml:3:25: "status" is a value of every request and cannot be the name of a capture"#),
        Mistake(
            base + "  a: {get: x, capture: {url: 'json:/s'}}",
            #"m.yaml:3:25: "url" is a value of every request and cannot be the name of a capture"#),
        Mistake(
            "variables: {v: o}\n" + base + "  a: {get: x, output: '${v}.txt'}\n  b: {get: x, output: o.txt}",
            #"m.yaml:5:23: "a" and "b" have the same output"#),
        Mistake(
            base + "  a: {get: x, forEach: [1, 1], output: 'o/${item}'}",
            #"m.yaml:3:40: two items of "a" have the same output"#),
        Mistake(
            "variables: {v: '../o'}\n" + base + "  a: {get: x, output: '${v}'}",
            #"m.yaml:4:23: invalid output "../o": it must be a path below the output directory"#),
        Mistake(
            base + "  a: {get: x, output: \"..\\u002f\\u0301o\"}",
            "m.yaml:3:23: invalid output \"../\u{301}o\": it must be a path below the output directory"),
    ]

    private static let topLevel = [
        Mistake("request: {}", #"m.yaml:1:1: unknown key "request" in the manifest (did you mean "requests"?)"#),
        Mistake("version: 1", #"m.yaml:1:1: the manifest has no "requests""#),
        Mistake("version: 2\nrequests: {a: {get: 'http://a.test'}}", "m.yaml:1:10: version must be 1"),
        Mistake("- a", "m.yaml:1:1: the manifest must be a mapping, not a list"),
        Mistake("text", "m.yaml:1:1: the manifest must be a mapping, not text"),
        Mistake("requests: []", "m.yaml:1:11: requests must be a mapping, not a list"),
        Mistake("requests: {}", "m.yaml:1:11: the manifest has no requests"),
        Mistake(
            "baseURL: ftp://a.test\nrequests: {a: {get: x}}", "m.yaml:1:10: baseURL must be an absolute http or https URL"),
        Mistake("baseURL: [x]\nrequests: {a: {get: x}}", "m.yaml:1:10: baseURL must be text, not a list"),
        Mistake(
            "baseURL: ${env.NOWHERE}\nrequests: {a: {get: x}}", "m.yaml:1:10: the environment variable NOWHERE is not set"),
        Mistake(
            "baseURL: ${hots}\nvariables: {host: 'http://a'}\nrequests: {a: {get: x}}",
            #"m.yaml:1:10: unknown variable ${hots} (did you mean "host"?)"#),
        Mistake("variables: {a b: 1}\nrequests: {a: {get: 'http://a'}}", #"m.yaml:1:13: invalid variable name "a b""#),
        Mistake(
            "variables: {user: }\nrequests: {a: {get: 'http://a'}}",
            #"m.yaml:1:19: the variable "user" has no value: set it with --var"#),
        Mistake(
            "variables:\n  b: ${c}\n  c: ${b}\nrequests: {a: {get: 'http://a'}}",
            "m.yaml:2:6: circular variables: b -> c -> b"),
        Mistake(
            "variables: {b: '${c}'}\nrequests: {a: {get: 'http://a'}}",
            "m.yaml:1:16: unknown variable ${c} (did you mean \"b\"?)"),
        Mistake(
            "defaults: {timeot: 3}\nrequests: {a: {get: 'http://a'}}",
            #"m.yaml:1:12: unknown key "timeot" in defaults (did you mean "timeout"?)"#),
        Mistake(
            "defaults: {perHost: 0}\nrequests: {a: {get: 'http://a'}}",
            "m.yaml:1:21: perHost must be a whole number from 1 to 256"),
        Mistake(
            "defaults: {perSecond: fast}\nrequests: {a: {get: 'http://a'}}",
            "m.yaml:1:23: perSecond must be a number of requests greater than 0"),
        Mistake(
            "secrets: [lgin.token]\nrequests: {login: {get: 'http://a', capture: {token: status}}}",
            #"m.yaml:1:11: unknown request or variable "lgin" (did you mean "login"?)"#),
        Mistake(
            "secrets: [login.tokn]\nrequests: {login: {get: 'http://a', capture: {token: status}}}",
            #"m.yaml:1:11: "login" has no capture "tokn" (did you mean "token"?)"#),
        Mistake(
            "secrets: [env.NOWHERE]\nrequests: {a: {get: 'http://a'}}",
            "m.yaml:1:11: the environment variable NOWHERE is not set"),
    ]

    private static let requests = [
        Mistake(base + "  a:\n    gte: x", #"m.yaml:4:5: unknown key "gte" in "a" (did you mean "get"?)"#),
        Mistake(base + "  a b: {get: x}", #"m.yaml:3:3: invalid request name "a b": use letters, digits, - and _"#),
        Mistake(base + "  env: {get: x}", #"m.yaml:3:3: "env" is reserved and cannot be the name of a request"#),
        Mistake(base + "  a: {get: x}\n  a: {get: y}", #"m.yaml:4:3: duplicate key "a""#),
        Mistake(base + "  a:\n", #"m.yaml:3:5: "a" must be a mapping, not nothing"#),
        Mistake(
            base + "  a: {headers: {}}",
            #"m.yaml:3:3: "a" has no URL: use get, head, post, put, patch or delete, or method and url"#),
        Mistake(base + "  a: {get: x, post: y}", #"m.yaml:3:15: "a" has both get and post"#),
        Mistake(base + "  a: {get: x, method: PUT}", #"m.yaml:3:15: "a" has both get and method"#),
        Mistake(base + "  a: {method: get, url: x}", "m.yaml:3:15: methods are case-sensitive: use GET"),
        Mistake(base + "  a: {method: 'G T', url: x}", #"m.yaml:3:15: invalid method "G T""#),
        Mistake("requests:\n  a:\n    get: x", "m.yaml:3:10: the URL is relative, but the manifest has no baseURL"),
        Mistake(base + "  a: {get: 'ftp://b.test/'}", "m.yaml:3:12: invalid URL: it must be an http or https URL"),
        Mistake(base + "  a: {get: 'localhost:80/x'}", "m.yaml:3:12: invalid URL: it must be an http or https URL"),
        Mistake(base + "  a: {get: 'http:///x'}", "m.yaml:3:12: invalid URL: it has no host"),
        Mistake(base + "  a: {get: \"a\\tb\"}", "m.yaml:3:12: invalid URL: it contains a control character"),
        Mistake("requests:\n  a: {get: ''}", "m.yaml:2:12: the URL is empty"),
        Mistake(base + "  a: {get: 3}", "m.yaml:3:12: get must be text, not a number"),
        Mistake(one("    tags: ['a,b']"), #"m.yaml:5:12: invalid tag "a,b""#),
        Mistake(one("    tags: 3"), "m.yaml:5:11: a tag must be text, not a number"),
        Mistake(base + "  a: {post: x, json: {}, form: {}}", #"m.yaml:3:26: "a" has both json and form"#),
        Mistake(
            base + "  a: {post: x, form: {b: {c: d}}}",
            "m.yaml:3:26: a value in form must be text, a number, true, false or a list"),
        Mistake(
            base + "  a: {post: x, file: /nowhere/file}",
            #"m.yaml:3:22: cannot read "/nowhere/file": No such file or directory"#),
        Mistake(
            base + "  a: {post: x, multipart: {b: {file: /nowhere/file, value: c}}}",
            "m.yaml:3:31: a part must have either file or value"),
        Mistake(one("    headers: {'A B': c}"), #"m.yaml:5:15: invalid header name "A B""#),
        Mistake(one("    headers: {A: b, a: c}"), #"m.yaml:5:21: the header "a" is given twice"#),
        Mistake(one("    headers: {A: \"b\\nc\"}"), "m.yaml:5:18: a header must not contain control characters"),
        Mistake(one("    bearer: t\n    basic: {user: u, password: p}"), #"m.yaml:5:5: "a" has both bearer and basic"#),
        Mistake(one("    basic: {user: u}"), "m.yaml:5:12: basic requires user and password"),
        Mistake(
            one("    timeout: soon"), "m.yaml:5:14: timeout must be a number of seconds, or a time such as 500ms, 30s or 5m"),
        Mistake(one("    retry: {count: 3, on: [200]}"), "m.yaml:5:28: a status must be a whole number from 400 to 599"),
        Mistake(one("    onFailure: ignore"), "m.yaml:5:16: onFailure must be stop or continue"),
        Mistake(
            one("    output: ../b"),
            #"m.yaml:5:13: invalid output "../b": it must be a path below the output directory"#),
        Mistake(one("    output: o\n  b: {get: y, output: ./o}"), #"m.yaml:6:23: "a" and "b" have the same output"#),
        Mistake(
            one("    forEach: [1, 2]\n    output: o"), "m.yaml:6:13: all items have the same output; use ${item} or ${index}"
        ),
        Mistake(one("    parallel: 2"), "m.yaml:5:5: parallel requires forEach"),
        Mistake(one("    forEach: three"), "m.yaml:5:14: forEach must be a list, or one ${…} that is a list"),
        Mistake(one("    poll: {every: 1}"), "m.yaml:5:11: poll requires until"),
        Mistake(
            one("    poll: {until: status == 200}\n    follow: json:/next"), "m.yaml:5:5: poll and follow cannot be combined"
        ),
        Mistake(one("    limit-rate-each: 0"), "m.yaml:5:22: limit-rate-each must be greater than 0"),
        Mistake(
            one("    retry: {maxTime: x}"),
            "m.yaml:5:22: maxTime must be a number of seconds, or a time such as 500ms, 30s or 5m"),
        Mistake(one("    pages: 3"), "m.yaml:5:5: pages requires follow"),
        Mistake(one("    proxy: 'gopher://p'"), "m.yaml:5:12: proxy: invalid proxy URL"),
        Mistake(one("    ipv4: true\n    ipv6: true"), "m.yaml:5:5: ipv4 and ipv6 cannot be combined"),
        Mistake(one("    http1.1: true\n    http1.0: true"), "m.yaml:6:5: http1.0 and http1.1 cannot be combined"),
        Mistake(one("    path-as-is: 1"), "m.yaml:5:17: path-as-is must be true or false, not a number"),
        Mistake(one("    resolve: {'b.test:80': nowhere}"), #"m.yaml:5:28: resolve: "nowhere" is not an IP address"#),
        Mistake(one("    insecure: maybe"), "m.yaml:5:15: insecure must be true or false, not text"),
    ]

    private static let values = [
        Mistake(
            one("    query: {q: '${b.c}'}"), #"m.yaml:5:16: ${b.c}: unknown request or variable "b" (did you mean "a"?)"#
        ),
        Mistake(one("    query: {q: '${item}'}"), "m.yaml:5:16: ${item} requires forEach"),
        Mistake(one("    query: {q: '${x'}"), "m.yaml:5:16: the closing } of a ${ is missing"),
        Mistake(one("    query: {q: '${x y}'}"), "m.yaml:5:16: invalid reference ${x y}"),
        Mistake(
            one("    query: {q: '${env.HOMES}'}"),
            #"m.yaml:5:16: the environment variable HOMES is not set (did you mean "HOME"?)"#),
        Mistake(
            one("    capture: {token: 'json:/t'}\n  b: {get: '${a.tokn}'}"),
            #"m.yaml:6:12: "a" has no capture "tokn" (did you mean "token"?)"#),
        Mistake(
            one("    query: {q: '${a.status}'}"), #"m.yaml:3:3: circular dependency: "a" -> "a""#),
        Mistake(
            base + "  a: {get: '${b.url}'}\n  b: {get: '${a.url}'}",
            #"m.yaml:3:3: circular dependency: "a" -> "b" -> "a""#),
        Mistake(
            base + "  a: {get: x, after: [b]}\n  b: {get: x, after: [c]}\n  c: {get: x, after: b}",
            #"m.yaml:4:3: circular dependency: "b" -> "c" -> "b""#),
        Mistake(
            one("    after: [lgoin]\n  login: {get: x}"),
            #"m.yaml:5:13: after names the unknown request "lgoin" (did you mean "login"?)"#),
        Mistake(one("    when: b.failed and"), "m.yaml:5:22: when: the expression ends too early"),
        Mistake(one("    when: some(a.failed)"), #"m.yaml:5:11: when: unknown function "some""#),
        Mistake(
            one("    when: b.failed"), #"m.yaml:5:11: ${b.failed}: unknown request or variable "b" (did you mean "a"?)"#),
        Mistake(one("    when: (1 == 1"), #"m.yaml:5:17: when: a ")" is missing"#),
        Mistake(one("    capture: {t: 'jsn:/t'}"), #"m.yaml:5:18: unknown capture "jsn" (did you mean "json"?)"#),
        Mistake(
            one("    capture: {t: 'json:t'}"),
            #"m.yaml:5:18: invalid JSON Pointer "t": it must begin with /, as in json:/items/0/id"#),
        Mistake(one("    capture: {t: header}"), "m.yaml:5:18: header: requires a value after the colon"),
        Mistake(one("    capture: {t: 'xpath://['}"), #"m.yaml:5:18: invalid XPath "//[""#),
        Mistake(one("    capture: {t: 'text:('}"), #"m.yaml:5:18: invalid regular expression "(""#),
        Mistake(
            one("    capture: {t: {text: 'a(b)', group: 2}}"), "m.yaml:5:25: group 2 does not exist; the last group is 1"),
        Mistake(
            one("    capture: {failed: status}"),
            #"m.yaml:5:15: "failed" is a value of every request and cannot be the name of a capture"#),
        Mistake(
            one("    expect: {status: 99}"),
            "m.yaml:5:22: status must be a number from 100 to 599, a range such as 200-299, or a list of them"),
        Mistake(
            one("    expect: {status: 300-200}"),
            "m.yaml:5:22: status must be a number from 100 to 599, a range such as 200-299, or a list of them"),
        Mistake(one("    expect: {typ: a/b}"), #"m.yaml:5:14: unknown key "typ" in expect (did you mean "type"?)"#),
        Mistake(
            one("    expect: {maxBytes: 5 parsecs}"),
            "m.yaml:5:24: maxBytes must be a number of bytes, or a size such as 500kB, 50MB or 1MiB"),
        Mistake(one("    expect: {sha256: abc}"), "m.yaml:5:22: a sha-256 must have 64 hexadecimal digits"),
        Mistake(
            one("    expect: {checksum: crc=1}"),
            #"m.yaml:5:24: unknown checksum "crc"; use md5, sha-1, sha-224, sha-256, sha-384, sha-512"#),
        Mistake(
            one("    expect: {json: {a: 1}}"),
            #"m.yaml:5:21: invalid JSON Pointer "a": it must begin with /, as in json:/items/0/id"#),
        Mistake(
            one("    expect: {json: {/a: {equal: 1}}}"),
            #"m.yaml:5:26: unknown key "equal" in an expectation (did you mean "equals"?)"#),
        Mistake(
            #"{"requests": {"a": {"get": "http://a.test", "gett": 1}}}"#,
            #"m.yaml:1:45: unknown key "gett" in "a" (did you mean "get"?)"#),
    ]

    @Test(arguments: topLevel + outputs + requests + values)
    func `an invalid manifest produces one line with the position`(mistake: Mistake) {
        #expect(throws: ManifestError.self) {
            do throws(ManifestError) {
                _ = try Workflow(
                    parsing: Data(mistake.text.utf8), name: "m.yaml", inputs: WorkflowInputs(environment: ["HOME": "/"]))
            } catch {
                #expect(error.description == mistake.message)
                throw error
            }
        }
    }

    @Test func `a valid manifest is accepted`() throws {
        let text = """
            version: 1
            baseURL: ${env.API}
            variables: {user: ada}
            secrets: [env.PASSWORD, login.token]
            defaults: {timeout: 30, retry: {count: 3}, perHost: 4, headers: {Accept: application/json}}
            requests:
              login:
                post: login
                json: {user: "${user}", password: "${env.PASSWORD}"}
                expect: {status: 200, type: application/json}
                capture: {token: "json:/token", tag: "header:ETag"}
              list:
                get: reports
                bearer: ${login.token}
                capture: {ids: "json:/items/*/id"}
              report:
                forEach: ${list.ids}
                get: reports/${item}
                bearer: ${login.token}
                output: out/${item}.pdf
                expect: {type: application/pdf, maxBytes: 50MB}
              notify:
                post: hook
                after: [report]
                when: any(report.failed)
                json: {failed: "${report.failed}"}
            """
        let workflow = try Workflow(
            parsing: Data(text.utf8), name: "m.yaml",
            inputs: WorkflowInputs(environment: ["API": "http://api.test/v1/", "PASSWORD": "p"]))
        #expect(workflow.requestIDs == ["login", "list", "report", "notify"])
        #expect(workflow.plan.requests.map(\.dependencies) == [[], ["login"], ["login", "list"], ["report"]])
        #expect(workflow.only(["list"])?.requestIDs == ["login", "list"])
        #expect(workflow.plan.secretValues == ["p"])
    }
}
