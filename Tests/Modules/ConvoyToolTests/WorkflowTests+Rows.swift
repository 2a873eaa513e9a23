import ConvoySerialization
import ConvoyTestServer
import Foundation
import Testing

@testable import ConvoyTool

/// Runs for the rows of a table.
extension WorkflowTests {
    @Test func `--data runs the manifest once for each row`() async throws {
        server.route("/u/*", .text("x"))
        try scratch.write("name,n\r\n\"a,b\",1\r\n\"c\"\"d\",2\r\n", to: "rows.csv")
        let result = try await run(
            "variables: {name: null, n: null}\nrequests: {u: {get: u/x, query: {q: \"${name}\", n: \"${n}\"}}}", "--data",
            "rows.csv")
        #expect(result.status == 0, "\(result.errors)")
        #expect(server.requests.map(\.target) == ["/u/x?q=a%2Cb&n=1", "/u/x?q=c%22d&n=2"])
    }

    @Test func `a variable unknown to the manifest is rejected`() async throws {
        serveChain()
        for before in [["run"], ["check"]] {
            let result = try await run(chain, "--var", "usr=bob", before: before)
            #expect(result.status == 2)
            #expect(
                result.errorLines.first?.hasPrefix(
                    #"convoy: --var: unknown variable "usr" (did you mean "user"?) in m.yaml"#) == true,
                "\(result.errors)")
        }
        #expect(server.requests.isEmpty)
        // A variable that is used but not declared can be set.
        let used = try await run("requests: {me: {get: \"${path}\"}}", "--var", "path=me")
        #expect(used.status == 0, "\(used.errors)")
    }

    @Test func `a column unknown to the manifest is reported`() async throws {
        server.route("/u", .text("x"))
        try scratch.write("name,nme\na,1\nb,2\n", to: "rows.csv")
        let result = try await run(
            "variables: {name: null}\nrequests: {u: {get: u, query: {q: \"${name}\"}}}", "--data", "rows.csv")
        #expect(result.status == 0)
        #expect(
            result.errorLines == [
                #"convoy: --data: unknown variable "nme" (did you mean "name"?) in m.yaml: the column is not used"#
            ])
        try scratch.write("name,name\na,1\n", to: "rows.csv")
        let twice = try await run("requests: {u: {get: u}}", "--data", "rows.csv")
        #expect(twice.status == 2 && twice.errors.contains(#"two columns have the name "name""#), "\(twice.errors)")
    }

    @Test func `the outputs of all rows are checked before anything is sent`() async throws {
        server.route("/u", .text("x"))
        let text = "variables: {name: null, n: null}\nrequests: {u: {get: u, output: \"${name}.txt\"}}"
        try scratch.write("name,n\na,1\nb,2\na,3\n", to: "rows.csv")
        let same = try await run(text, "--data", "rows.csv", "--force")
        #expect(same.status == 2)
        #expect(
            same.errorLines == [
                "convoy: --data: row 1 (name=a, n=1) and row 3 (name=a, n=3) have the same output, a.txt"
            ])
        try scratch.write("name,n\na,1\nb,2\n", to: "rows.csv")
        try scratch.write("old", to: "b.txt")
        let there = try await run(text, "--data", "rows.csv")
        #expect(there.status == 8 && there.errorLines == ["convoy: file exists: b.txt; see --force"], "\(there.errors)")
        #expect(server.requests.isEmpty)
    }

    @Test func `a secret in a row is masked, even if truncated`() async throws {
        server.route("/u", .status(404))
        let secret = String(repeating: "geheim", count: 20)
        try scratch.write("pw,out\n\(secret),a\nx,../a\n", to: "rows.csv")
        let text =
            "secrets: [pw]\nvariables: {pw: null, out: null}\nrequests: {u: {get: u, bearer: \"${pw}\", output: \"${out}\"}}"
        let bad = try await run(text, "--data", "rows.csv")
        #expect(bad.status == 2)
        #expect(bad.errors.hasPrefix("convoy: --data: row 2: m.yaml:4:"), "\(bad.errors)")
        try scratch.write("pw,out\n\(secret),a\n", to: "rows.csv")
        let result = try await run(text, "--data", "rows.csv")
        #expect(result.status == 7 && result.errors.contains("row 1 (pw=***, out=a)"), "\(result.errors)")
        #expect(!(result.output + result.errors).contains("geheim"))
    }

    @Test func `error messages name the row`() async throws {
        server.route("/u/a", .text("x"))
        server.route("/u/b", .status(404))
        try scratch.write("name\na\nb\n", to: "rows.csv")
        let text = "variables: {name: null}\nrequests: {u: {get: \"u/${name}\"}}"
        let result = try await run(text, "--data", "rows.csv")
        #expect(result.status == 7)
        #expect(
            result.errorLines == ["convoy: m.yaml:3: row 2 (name=b): u: status: expected 200-299, got 404"])
        #expect(result.outputLines.contains("row 2 (name=b) of 2"))
        let json = try await run(text, "--data", "rows.csv", "--json")
        #expect(try json.objects().map { $0["row"] as? Double } == [1, 2])
    }
}
