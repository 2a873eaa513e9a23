import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTool

@Suite(.serialized) struct BodyFileTests {
    let scratch: Scratch

    init() throws { scratch = try Scratch() }

    private func body() -> BodyFile {
        BodyFile(path: scratch.url.appendingPathComponent("file").path, replaces: false, hashes: true)
    }

    private func write(_ text: String, to body: BodyFile) throws {
        try Array(text.utf8).withUnsafeBytes { try body.write($0) }
    }

    @Test func `writing to a discarded body does not create a file`() {
        let body = body()
        body.discard()
        #expect(throws: URLError.self) { try write("late", to: body) }
        #expect(throws: URLError.self) { try body.commit() }
        #expect(scratch.names.isEmpty)
    }

    @Test func `discarding an uncommitted body removes its file; committing keeps it`() throws {
        let dropped = body()
        try write("a", to: dropped)
        #expect(scratch.names == ["file.part"])
        dropped.discard()
        #expect(scratch.names.isEmpty)

        let kept = body()
        try write("wrong", to: kept)
        try kept.begin(ResponseHead(url: scratch.url, statusCode: 200, headers: []), discarding: 5)
        try write("right", to: kept)
        try kept.synchronize()
        try kept.commit()
        kept.discard()
        #expect(scratch.names == ["file"])
        #expect(try scratch.text("file") == "right")
        #expect(kept.count == 5)
    }
}
