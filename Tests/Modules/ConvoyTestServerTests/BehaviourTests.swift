import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTestServer

struct BehaviourTests {
    private func exchange(
        _ server: TestServer, _ resource: BehavingResource, _ headers: [String] = [], suffix: String = ""
    ) throws -> RawClient.Response {
        try RawClient(port: server.port, timeout: 10).exchange("GET", resource.path + suffix, headers: headers)
    }

    @Test(arguments: ServerBehaviour.allCases)
    func `every behaviour answers any range of any size and ends unless it stalls`(behaviour: ServerBehaviour) throws {
        let server = try TestServer()
        let isSilent = behaviour == .stalls || behaviour == .answersLikeHEAD
        for size in [0, 1, 2, 999] {
            let resource = server.route("/e", behaving: behaviour, size: size, seed: UInt64(size), slice: 100)
            for range in ["0-", "1-", "\(size / 2)-", "\(size)-", "\(size + 5)-", "99999999999999999999-", "-5", "1-1"] {
                for suffix in ["", "/elsewhere"] {
                    let client = try RawClient(port: server.port, timeout: isSilent ? 0.1 : 30)
                    try client.request("GET", "/e" + suffix, headers: ["Range: bytes=\(range)", "Connection: close"])
                    do {
                        _ = try client.readToEnd()
                    } catch RawClient.Failure.timedOut {
                        #expect(isSilent)
                    } catch RawClient.Failure.reset {
                        #expect(behaviour == .resets || behaviour == .resetsBeforeHead)
                    }
                }
            }
            #expect(resource.answers.count == 16 && resource.answers[0].range == "bytes=0-")
        }
        #expect(server.unexpectedRequests.isEmpty)
    }

    @Test func `the outcomes of each behaviour match its honesty and detectability`() {
        for behaviour in ServerBehaviour.allCases {
            #expect(behaviour.isUndetectable == behaviour.outcomes.isEmpty, "\(behaviour)")
            #expect(!behaviour.isHonest || !behaviour.outcomes.contains(.failed), "\(behaviour)")
        }
        #expect(ServerBehaviour.allCases.count { $0.isHonest } >= 10)
    }

    @Test func `an honest server sends the rest, a changed entity in full, or 416 past the end`() throws {
        let server = try TestServer()
        let resource = server.route("/e", behaving: .honest, size: 1000, seed: 7)
        let whole = try exchange(server, resource)
        let tag = try #require(whole["ETag"])
        #expect(whole.status == 200 && whole.body.count == 1000 && whole["Date"] != nil)
        let rest = try exchange(server, resource, ["Range: bytes=400-", "If-Range: \(tag)"])
        #expect(rest.status == 206 && rest.body == whole.body[400...] && rest["ETag"] == tag)
        #expect(rest["Content-Range"] == "bytes 400-999/1000")
        #expect(try exchange(server, resource, ["Range: bytes=400-", "If-Range: \"x\""]).body == whole.body)
        let behind = try exchange(server, resource, ["Range: bytes=1000-"])
        #expect(behind.status == 416 && behind["Content-Range"] == "bytes */1000")
        #expect(resource.answers.map(\.status) == [200, 206, 200, 416])
        #expect(resource.acceptableBodies() == [whole.body])
        #expect(resource.accepts(whole.body) && !resource.accepts(whole.body.dropLast()))
        #expect(!resource.accepts(whole.body, status: 206))
    }

    @Test func `a server that changes the entity lists all of its versions`() throws {
        let server = try TestServer()
        let resource = server.route("/e", behaving: .ignoresIfRange, size: 1000)
        let bodies = try (0..<3).map { _ in try exchange(server, resource).body }
        #expect(Set(bodies).count == 3 && resource.acceptableBodies() == bodies)
        let part = try exchange(server, resource, ["Range: bytes=10-", "If-Range: \"x\""])
        #expect(part.status == 206 && resource.acceptableBodies().count == 4)
        #expect(part.body == resource.acceptableBodies()[3][10...])
    }

    @Test func `equal seeds produce the same behaviour, and different seeds do not`() throws {
        let server = try TestServer()
        func statuses(_ seed: UInt64) throws -> ([Int], Data?) {
            let resource = server.route("/e", behaving: .closesBeforeHead, size: 100, seed: seed)
            let statuses = try (0..<30).map { _ in
                do { return try exchange(server, resource).status } catch RawClient.Failure.closed { return 0 }
            }
            return (statuses, resource.acceptableBodies().first)
        }
        let one = try statuses(1), again = try statuses(1), two = try statuses(2)
        #expect(one == again)
        #expect(one.0 != two.0 && one.1 != two.1)
    }

    @Test func `a truncated close-delimited body is acceptable only for a 200`() throws {
        let server = try TestServer()
        let resource = server.route("/e", behaving: .cutAtConnectionClose, size: 1000, seed: 3)
        for _ in 0..<20 {
            let response = try exchange(server, resource)
            #expect(resource.accepts(response.body))
        }
        #expect(resource.acceptableBodies().count > 1)
        let (count, tag) = (resource.acceptableBodies().count, try #require(try exchange(server, resource)["ETag"]))
        for _ in 0..<20 { _ = try exchange(server, resource, ["Range: bytes=500-", "If-Range: \(tag)"]) }
        #expect(resource.acceptableBodies().count <= count + 1)
    }

    @Test(arguments: [ServerBehaviour.gzip, .gzipOfTwoMembers, .gzipThenIdentity, .gzipCutShort])
    func `a gzip behaviour sends valid gzip data unless it is truncated`(behaviour: ServerBehaviour) throws {
        let server = try TestServer()
        let directory = try TemporaryDirectory()
        for size in [0, 1, 200_000] {
            let resource = server.route("/e", behaving: behaviour, size: size)
            let file = try directory.write(try exchange(server, resource).body, to: "e.gz")
            let result = try ProcessRunner.run("gzip", ["-dc", file.path])
            let isWhole = behaviour != .gzipCutShort
            #expect((result.status == 0) == isWhole)
            // A truncated gzip of an empty body is also empty.
            if size > 0 || isWhole { #expect(resource.accepts(result.output) == isWhole) }
        }
    }

    @Test func `redirecting behaviours redirect to an existing URL under the resource`() throws {
        let server = try TestServer()
        let resource = server.route("/a/e", behaving: .redirectsRangeToEqualEntityTag, size: 100)
        let whole = try exchange(server, resource)
        let moved = try exchange(server, resource, ["Range: bytes=50-"])
        #expect(moved.status == 302 && moved["Location"] == "e/elsewhere")
        let part = try exchange(server, resource, ["Range: bytes=50-"], suffix: "/elsewhere")
        #expect(part.status == 206 && part["ETag"] == whole["ETag"] && part.body != whole.body[50...])
        server.removeRoute(resource)
        #expect(try exchange(server, resource).status == 404)
        #expect(try exchange(server, resource, suffix: "/elsewhere").status == 404)
    }
}
