import ConvoyTestServer
import Foundation
import Testing

@testable import ConvoyTool

/// Tests that each option that is common in curl, HTTPie, aria2, Hurl or newman has the same effect here, or produces
/// one helpful message.
@Suite(.serialized) struct HabitOptionTests {
    @Test(arguments: [
        (["send", "-X", "POST", "URL"], "convoy send POST URL"), (["send", "POST", "URL", "-d", "a=b"], "NAME=VALUE"),
        (["send", "POST", "URL", "-F", "a=b"], "--multipart"), (["send", "POST", "URL", "-f"], "--form"),
        (["send", "POST", "URL", "-j"], "JSON by default"),
        (["send", "GET", "URL", "--auth-type", "bearer"], "--bearer TOKEN"),
        (["send", "GET", "URL", "--follow"], "redirects"),
        (["send", "GET", "URL", "-i"], "--print hb"), (["run", "--ignore-asserts", "m"], "--no-expect"),
        (["run", "-e", "env.json", "m"], "--env-file"), (["run", "--variable", "a=b", "m"], "--var NAME=VALUE"),
        (["get", "-x16", "URL"], "-s N"), (["get", "-w", "%{http_code}", "URL"], "--json"),
        (["http://h/x"], "convoy get URL"), (["example.com/x"], "convoy send GET URL"), (["send", "POST"], "no URL"),
    ])
    func `a familiar option of another tool produces a helpful message`(arguments: [String], text: String) async throws {
        let scratch = try Scratch()
        let result = try await ToolProcess.run(arguments.map { $0 == "URL" ? "http://127.0.0.1:1/" : $0 }, in: scratch.url)
        #expect(result.status == 2 && result.errorLines.count == 1)
        #expect(result.errors.contains(text), "\(result.errors)")
    }

    @Test func `convoy send URL sends a GET, or a POST if it has a body`() async throws {
        let server = try TestServer(), scratch = try Scratch()
        server.route(nil, "/x", .text("x"))
        let url = server.url("/x").absoluteString, local = "localhost:\(server.port)/x"
        for (arguments, method) in [
            ([url], "GET"), ([url, "a==b", "X-A:b"], "GET"), ([url, "a=b"], "POST"), ([url, "a:=1"], "POST"),
            ([local], "GET"),
        ] {
            server.forgetRequests()
            let result = try await ToolProcess.run(["send"] + arguments, in: scratch.url)
            #expect(result.status == 0 && server.requests.first?.method == method, "\(arguments): \(result.errors)")
        }
    }
}
