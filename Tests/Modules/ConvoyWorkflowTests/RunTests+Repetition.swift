import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyWorkflow

/// Requests that are sent several times: for the items of a list, until a condition is true, and for pages.
extension RunTests {
    @Test func `forEach runs for each item and collects the values in order`() async throws {
        server.route("/list", .json(["items": [["id": 1], ["id": 2], ["id": 3]]]))
        server.route("/item/*") { request in
            request.path.hasSuffix("2") ? .status(404) : .json(["name": "n\(request.path.suffix(1))"])
        }
        server.echo(at: "/end")
        let finished = try await bench.run(
            """
            requests:
              list: {get: list, capture: {ids: "json:/items/*/id"}}
              each: {forEach: "${list.ids}", get: "item/${item}", parallel: 2, query: {i: "${index}"}, capture: {name: json:/name}}
              end: {post: end, when: any(each.failed), json: {failed: "${each.failed}", names: "${each.name}", states: "${each.status}"}}
              no: {get: end, when: not any(each.failed)}
            """)
        #expect(
            finished.states == [
                "list": "succeeded", "each[1]": "succeeded", "each[2]": "failed", "each[3]": "succeeded", "end": "succeeded",
                "no": "skipped",
            ])
        #expect(
            server.requests.last { $0.path == "/end" }?.text
                == #"{"failed":[2],"names":["n1",null,"n3"],"states":[200,404,200]}"#)
        #expect(try finished.failure("no") == "not sent, because its when condition is false")
    }

    @Test func `forEach over an empty list succeeds`() async throws {
        server.route("/list", .json(["items": [Int]()]))
        server.route("/x", .text("x"))
        let finished = try await bench.run(
            """
            requests:
              list: {get: list, capture: {ids: "json:/items"}}
              each: {forEach: "${list.ids}", get: "item/${item}"}
              x: {get: x, after: each}
            """)
        #expect(finished.states == ["list": "succeeded", "x": "succeeded"])
    }

    @Test func `a job is polled until its condition is true`() async throws {
        server.route("POST", "/jobs", .json(["id": 7], status: 202))
        server.route(
            "/jobs/7",
            inTurn: [
                .json(["state": "queued"], status: 202), .json(["state": "running"]),
                .json(["state": "done", "url": "/file"]),
            ])
        server.route("/file", .pattern(count: 100_000))
        let finished = try await bench.run(
            """
            requests:
              start: {post: jobs, expect: {status: 202}, capture: {id: json:/id}}
              job:
                get: jobs/${start.id}
                poll: {until: status == 200 and body.state == 'done', every: 10ms, for: 30}
                capture: {place: json:/url}
              file: {get: "${job.place}", output: out/file.bin}
            """)
        #expect(
            finished.states == ["start": "succeeded", "job": "succeeded", "file": "succeeded"],
            "\(finished.result.failures.map(\.failures))")
        #expect(try finished.outcome("job").requestCount == 3)
        #expect(
            try Data(contentsOf: bench.directory.url.appendingPathComponent("out/file.bin"))
                == PatternBytes.data(count: 100_000))
    }

    @Test func `a poll fails after its time limit`() async throws {
        server.route("/job", .status(202))
        let finished = try await bench.run(
            "requests: {job: {get: job, poll: {until: status == 200, every: 20ms, for: 100ms}}}")
        #expect(try finished.failure("job") == "poll: until was not true within 0.1 s; the last status was 202")
    }

    @Test func `pages are followed, and their captures are joined`() async throws {
        server.route("/items") { request in
            let page = Int(request.target.last.map(String.init) ?? "") ?? 1
            let next = page < 3 ? "\"/items?page=\(page + 1)\"" : "null"
            return .json(text: "{\"ids\": [\(page * 10), \(page * 10 + 1)], \"next\": \(next)}")
        }
        server.echo(at: "/end")
        let finished = try await bench.run(
            """
            requests:
              items: {get: items, follow: json:/next, capture: {ids: "json:/ids", next: "json:/ids/0"}}
              two: {get: items, follow: json:/next, pages: 2, capture: {ids: "json:/ids"}}
              end: {post: end, json: {all: "${items.ids}", first: "${items.next}", two: "${two.ids}"}}
            """)
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        #expect(
            server.requests.last { $0.path == "/end" }?.text
                == #"{"all":[10,11,20,21,30,31],"first":[10,20,30],"two":[10,11,20,21]}"#)
    }

    @Test func `pages that repeat or lead to another server fail the request`() async throws {
        server.route("/circle", .text(#"{"next": "/circle?a"}"#))
        server.route("/away", .text(#"{"next": "http://127.0.0.2:1/"}"#))
        let finished = try await bench.run(
            "requests: {circle: {get: circle, follow: json:/next}, away: {get: away, follow: json:/next}}")
        #expect(try finished.failure("circle") == #"follow: the pages repeat at "/circle?a""#)
        #expect(try finished.failure("away") == #"follow: the next page "http://127.0.0.2:1/" is not on the same server"#)
    }

    @Test func `a request waits for a matching event`() async throws {
        let text =
            "event: note\ndata: {\"n\": 1}\n\ndata: {\"state\": \"no\"}\n\ndata: {\"state\": \"ready\", \"id\": 5}\n\n"
        server.route("/events", .bytes(Data(text.utf8), type: "text/event-stream"))
        server.route("/got/5", .text("x"))
        let finished = try await bench.run(
            """
            requests:
              event: {get: events, events: {type: message, json: {/state: ready}, for: 20}, capture: {id: json:/id}}
              got: {get: "got/${event.id}"}
            """)
        #expect(
            finished.states == ["event": "succeeded", "got": "succeeded"], "\(finished.result.failures.map(\.failures))")
    }
}
