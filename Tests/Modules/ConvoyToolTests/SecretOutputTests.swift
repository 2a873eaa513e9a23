import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// Tests that secrets in any part of a manifest or a command line do not appear in the tool's output.
@Suite(.serialized) struct SecretOutputTests {
    typealias Plant = SecretMatrixTests.Plant
    typealias Haul = SecretMatrixTests.Haul

    let server: TestServer
    let scratch: Scratch
    let haul = Haul()

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
        // The server echoes everything that it receives, as some servers do in error messages.
        server.route("/echo") { request in
            .json(["seen": [request.target, "\(request.headers)", request.text]], status: 418)
        }
        let fine = ["token": Self.captured.core, "url": "http://h/?sig=\(Self.signature.core)"]
        server.route("/fine", .json(fine))
        server.route("/auth") { request in
            request.headers["Authorization"] == nil
                ? .status(401, headers: ["WWW-Authenticate": "Basic realm=\"r\""]) : .text("hello")
        }
    }

    private static let names = [
        "userinfo", "api_key", "Authorization", "Cookie", "X-Api-Key", "bearer", "basic", "password", "client_secret",
        "multipart", "variable", "environment", "user", "given", "item", "listed", "proxy",
    ]
    static let plants = Dictionary(
        uniqueKeysWithValues: names.enumerated().map { ($1, Plant($1, 100 + $0, isField: true)) })
    static let captured = Plant("captured", 200, isField: true)
    static let signature = Plant("signature", 201, isField: true)
    static var all: [Plant] { Array(plants.values) + [captured, signature] }

    private static func core(_ name: String) -> String { plants[name]?.core ?? "" }

    /// Returns the requests of the matrix, one for each position of a secret.
    private func manifest(_ path: String) -> String {
        let address = server.url(path).absoluteString
        let host = address.replacing("http://", with: "")
        let core = Self.core
        return """
            version: 1
            variables: {db: {password: "\(core("variable"))"}, token: null}
            secrets: [env.LISTED]
            requests:
              userinfo: {get: "http://ada:\(core("userinfo"))@\(host)?api_key=\(core("api_key"))&page=2"}
              fields:
                post: "\(address)"
                headers:
                  Authorization: "Bearer \(core("Authorization"))"
                  Cookie: "theme=dark; sid=\(core("Cookie"))"
                  X-Api-Key: "\(core("X-Api-Key"))"
              bearer: {get: "\(address)", bearer: "${env.T}"}
              basic: {get: "\(address)", basic: {user: ada, password: "\(core("basic"))"}}
              form: {post: "\(address)", form: {user: ada, password: "\(core("password"))"}}
              json: {post: "\(address)", json: {a: [{client_secret: "\(core("client_secret"))"}], n: 1}}
              parts: {post: "\(address)", multipart: {passphrase: "\(core("multipart"))"}}
              text: {post: "\(address)", text: "${db.password} ${env.API_TOKEN} ${token} ${env.LISTED}"}
              user: {get: "\(address)", user: "ada:\(core("user"))"}
              items:
                forEach: [{url: "http://h/?token=\(core("item"))"}]
                post: "\(address)"
                json: "${item}"
              proxy: {get: "\(address)", proxy: "http://ada:\(core("proxy"))@127.0.0.1:9"}
              fine:
                get: "\(server.url("/fine").absoluteString)"
                capture: {token: json:/token, address: json:/url}
                output: fine.json
              last: {post: "\(address)", text: "${fine.token} ${fine.address}"}
            """
    }

    private var values: [String] {
        let file = """
            T=\(Self.core("bearer"))
            API_TOKEN=\(Self.core("environment"))
            LISTED=\(Self.core("listed"))
            """
        try? scratch.write(file, to: "env")
        return ["--env-file", "env", "--var", "token=\(Self.core("given"))"]
    }

    static let outputs: [[String]] = [
        ["run"], ["run", "--dry-run"], ["run", "--graph", "dot"], ["run", "--graph", "mermaid"], ["run", "--json"],
        ["run", "-v"], ["run", "--report", "tap"], ["run", "--report", "junit=report.xml"],
        ["run", "--timeline", "page.html"], ["run", "--har", "archive.har"], ["check"], ["run", "--only", "none"],
        ["run", "--resume"],
    ]

    @Test(arguments: outputs) func `the outputs of a manifest contain no secrets`(arguments: [String]) async throws {
        for path in ["/echo", "/none", "/auth"] {
            try scratch.write(manifest(path), to: "m.yaml")
            let result = try await ToolProcess.run(
                arguments + (arguments.contains("--har") ? ["-f"] : []) + values + ["m.yaml"], in: scratch.url)
            haul.add("output", result.output)
            haul.add("errors", result.errors)
            #expect(result.status != 2 || arguments.contains("none"), "\(result.errors)")
            for name in ["m.yaml", "env", "fine.json"] {
                try? FileManager.default.removeItem(at: scratch.url.appendingPathComponent(name))
            }
            try haul.add(filesOf: scratch.url)
        }
        if let file = arguments.last?.split(separator: "=").last, file.contains(".") {
            #expect(haul.count(of: String(file)) == 3)
        }
        if arguments.contains("--resume") { #expect(haul.count(of: ".m.yaml.convoyrun") == 3) }
        #expect(haul.leaks(of: Self.all) == [])
    }

    @Test func `data rows and their titles contain no secrets`() async throws {
        let url = server.url("/echo").absoluteString
        try scratch.write("requests: {a: {post: \"\(url)\", text: \"${password}\"}}\n", to: "m.yaml")
        try scratch.write("name,password\nada,\(Self.core("given"))\n", to: "rows.csv")
        let result = try await ToolProcess.run(["run", "--data", "rows.csv", "--json", "-v", "m.yaml"], in: scratch.url)
        #expect(result.errors.contains("name=ada, password=***"), "\(result.errors)")
        haul.add("all", result.output + result.errors)
        #expect(haul.leaks(of: Self.all) == [])
    }

    @Test func `the search of this suite finds secrets that are shown on request`() async throws {
        try scratch.write(manifest("/echo"), to: "m.yaml")
        let result = try await ToolProcess.run(
            ["run", "--dry-run", "--show-secrets"] + values + ["m.yaml"], in: scratch.url)
        haul.add("all", result.output)
        let hidden = ["listed", "proxy", "user", "captured", "signature"]
        let found = haul.leaks(of: Self.all)
        for plant in Self.all {
            #expect(found.contains("\(plant.name) in all") != hidden.contains(plant.name), "\(plant.name)")
        }
    }

    @Test(arguments: [
        ["send", "POST", "ECHO", "password=SECRET", "--expect", "status=200"],
        ["send", "GET", "ECHO", "X-Api-Key:SECRET", "--expect", "json=1"],
        [
            "send", "GET", "ECHO", "-v", "-H", "Authorization: Bearer SECRET", "--expect", "status=200", "--capture",
            "x=json:/none",
        ],
        ["send", "POST", "ECHO", "--curl", "password=SECRET"], ["send", "--curl", "GET", "http://ada:SECRET@h/"],
        ["send", "GET", "http://ada:SECRET@127.0.0.1:1/?token=SECRET"], ["send", "GET", "ftp://ada:SECRET@h/"],
        ["get", "-v", "-u", "ada:SECRET", "AUTH"], ["get", "--curl", "-H", "X-Auth-Token: SECRET", "ECHO"],
        ["put", "-v", "-H", "X-Auth-Token: SECRET", "f", "ECHO?sig=SECRET"],
        ["events", "-v", "-H", "X-Auth-Token: SECRET", "ECHO?sig=SECRET"],
        ["check", "wrong.yaml"], ["run", "wrong.yaml"], ["run", "--dry-run", "list.json"], ["run", "--json", "list.json"],
    ])
    func `the outputs of a command contain no secrets`(arguments: [String]) async throws {
        let plant = Self.captured
        let echo = server.url("/echo").absoluteString
        try scratch.write("contents", to: "f")
        try scratch.write("requests: {a: {get: \"ftp://ada:\(plant.core)@h/?token=\(plant.core)\"}}", to: "wrong.yaml")
        try scratch.write(
            #"{"requests":[{"id":"a","method":"POST","url":"\#(echo)?sig=\#(plant.core)","headers":{"X-Api-Key":"\#(plant.core)"},"parameters":{"password":"\#(plant.core)"}}]}"#,
            to: "list.json")
        let result = try await ToolProcess.run(
            arguments.map {
                $0.replacing("SECRET", with: plant.core).replacing("ECHO", with: echo)
                    .replacing("AUTH", with: server.url("/auth").absoluteString)
            }, in: scratch.url)
        // The response body is the requested output of `send`.
        let printsBody = arguments.first == "send" && arguments.contains("--expect") && !arguments.contains("--capture")
        if !printsBody { haul.add("output", result.output) }
        haul.add("errors", result.errors)
        #expect(!(result.output + result.errors).isEmpty)
        #expect(haul.leaks(of: [plant]) == [])
    }
}
