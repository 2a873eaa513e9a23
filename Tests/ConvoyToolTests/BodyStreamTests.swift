import Foundation
import Testing

@testable import ConvoyTool

@Suite(.serialized) struct BodyStreamTests {
    let scratch: Scratch

    init() throws { scratch = try Scratch() }

    private func stream() -> BodyStream {
        BodyStream(path: scratch.url.appendingPathComponent("file").path, replaces: false, hashes: true)
    }

    @discardableResult private func write(_ text: String, to stream: BodyStream) -> Int {
        Array(text.utf8).withUnsafeBufferPointer { bytes in
            bytes.baseAddress.map { stream.write($0, maxLength: bytes.count) } ?? 0
        }
    }

    @Test func `writing after the end creates no file`() {
        let stream = stream()
        stream.open()
        stream.close()
        #expect(write("late", to: stream) == -1)
        #expect(throws: ToolError.self) { try stream.commit() }
        #expect(scratch.names.isEmpty)
    }

    @Test func `a stream that is closed without a commit removes its file, and one that is committed keeps it`() throws {
        let dropped = stream()
        dropped.open()
        write("a", to: dropped)
        #expect(scratch.names == ["file.part"])
        dropped.close()
        #expect(scratch.names.isEmpty)

        let kept = stream()
        kept.open()
        write("wrong", to: kept)
        try kept.rewind()
        write("right", to: kept)
        try kept.commit()
        kept.close()
        #expect(scratch.names == ["file"])
        #expect(try scratch.text("file") == "right")
        #expect(kept.count == 5)
    }
}
