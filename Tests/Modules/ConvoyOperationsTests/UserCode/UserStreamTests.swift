import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Output streams of the user that fail, are full, are slow, or buffer.
@Suite struct UserStreamTests {
    let server: TestServer
    let queue = OperationQueue()

    init() throws {
        server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
    }

    @Test func `a failing output stream fails the operation`() throws {
        let full = try #require(OutputStream(toFileAtPath: "/dev/full", append: false))
        let probe = Probe(server.url("/quick"), output: full)
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == ["failure \(URLError.cannotWriteToFile.rawValue)", "completion"])
        #expect(probe.error?.userInfo[NSLocalizedDescriptionKey] as? String != nil)
    }

    @Test func `an output stream that cannot be opened fails the operation`() throws {
        let missing = try #require(OutputStream(toFileAtPath: "/no/such/directory/file", append: false))
        let probe = Probe(server.url("/quick"), output: missing)
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == ["failure \(URLError.cannotWriteToFile.rawValue)", "completion"])
        #expect(server.requests.isEmpty)
    }

    @Test func `an output stream that runs out of space fails the operation`() {
        final class FullStream: OutputStream {
            override var streamStatus: Stream.Status { .open }
            override var hasSpaceAvailable: Bool { false }
            override func open() {}
            override func close() {}
            override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int { 0 }
        }
        let probe = Probe(server.url("/quick"), output: FullStream(toMemory: ()))
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == ["failure \(URLError.cannotWriteToFile.rawValue)", "completion"])
    }

    @Test func `a user's slow stream delays only its own transfer`() {
        final class SlowStream: OutputStream {
            let goOn = Signal()
            let writing = Signal()
            private var isFirst = true
            private(set) var bytes = Data()
            override var streamStatus: Stream.Status { .open }
            override func open() {}
            override func close() {}
            override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int {
                if isFirst {
                    isFirst = false
                    writing.fire()
                    _ = goOn.wait()
                }
                bytes.append(buffer, count: min(len, 1000))
                return min(len, 1000)
            }
        }
        let content = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 % 251) })
        server.serve(content, at: "/content")
        let stream = SlowStream(toMemory: ())
        let slow = Probe(server.url("/content"), output: stream)
        queue.addOperation(slow.operation)
        #expect(stream.writing.wait())
        let other = Probe(server.url("/quick"))
        queue.addOperation(other.operation)
        #expect(other.outcome() == Probe.succeeded)
        #expect(!slow.operation.isFinished)
        stream.goOn.fire()
        #expect(slow.outcome() == Probe.succeeded)
        #expect(stream.bytes == content)
    }

    @Test func `a stream that is complete only after closing is closed before the operation finishes`() {
        final class Buffered: OutputStream {
            private var pending = Data()
            private(set) var whole = Data()
            override var streamStatus: Stream.Status { .open }
            override func open() {}
            override func close() { whole = pending }
            override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int {
                pending.append(buffer, count: len)
                return len
            }
        }
        let stream = Buffered(toMemory: ())
        let probe = Probe(server.url("/quick"), output: stream)
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == Probe.succeeded)
        #expect(stream.whole == Data("quick".utf8))
    }
}
