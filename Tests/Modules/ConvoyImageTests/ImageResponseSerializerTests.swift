#if Images
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyImage

@Suite struct ImageResponseSerializerTests {
    @Test(arguments: ImageResponseSerializer.contentTypes.sorted())
    func `each of the twelve content types is accepted`(type: String) throws {
        let object = try ImageResponseSerializer().responseObject(for: response(type: type), data: Samples.gif)
        #expect(object is Image)
        #expect(ImageResponseSerializer.contentTypes.count == 12)
    }

    @Test func `an unsupported content type is an error, and nothing is decoded`() throws {
        let error = #expect(throws: NSError.self) {
            try ImageResponseSerializer().responseObject(for: response(type: "image/svg+xml"), data: Samples.gif)
        }
        #expect(error?.code == NSURLErrorCannotDecodeContentData)
        #expect(error?.localizedDescription == "Request failed: unacceptable content-type: image/svg+xml")
    }

    @Test func `the error for a failed response contains its image`() throws {
        let error = #expect(throws: NSError.self) {
            try ImageResponseSerializer().responseObject(for: response(404), data: Samples.gif)
        }
        #expect(error?.code == NSURLErrorBadServerResponse)
        #expect(error?.serializedResponseObject is Image)
    }

    @Test func `a damaged image in a failed response is an error with the status as its cause`() throws {
        let error = #expect(throws: NSError.self) {
            try ImageResponseSerializer().responseObject(for: response(500), data: Samples.gif.dropLast())
        }
        #expect(error?.code == NSURLErrorCannotDecodeContentData)
        #expect((error?.userInfo[NSUnderlyingErrorKey] as? NSError)?.code == NSURLErrorBadServerResponse)
    }

    @Test func `a missing or empty body, a single space, 204 and 205 produce no object`() throws {
        let serializer = ImageResponseSerializer()
        #expect(try serializer.responseObject(for: response(), data: nil) == nil)
        #expect(try serializer.responseObject(for: response(), data: Data()) == nil)
        #expect(try serializer.responseObject(for: response(), data: Data(" ".utf8)) == nil)
        #expect(try serializer.responseObject(for: response(204), data: Samples.gif) == nil)
        #expect(try serializer.responseObject(for: response(205), data: Samples.gif) == nil)
    }

    @Test func `a body over the limit is an error`() throws {
        var serializer = ImageResponseSerializer()
        serializer.limits.maximumBodySize = Samples.gif.count
        #expect(try decode(Samples.gif, serializer) != nil)
        serializer.limits.maximumBodySize -= 1
        #expect(limit(failure(Samples.gif, serializer)) == .bodySize)
    }

    @Test func `the error for an undecodable body contains the reason, the response and the body`() throws {
        let body = Data("\u{89}PNG is not enough".utf8)
        let error = try #require(failure(body))
        #expect(error.domain == URLResponseSerializationErrorDomain)
        #expect(error.localizedDescription == "The body cannot be decoded as an image")
        #expect(error.localizedFailureReason == "The image format is not supported.")
        #expect(error.userInfo[URLResponseSerializationErrorKey.data] as? Data == body)
        #expect(error.userInfo[URLResponseSerializationErrorKey.response] is HTTPURLResponse)
        #expect(error.userInfo[NSURLErrorFailingURLErrorKey] as? URL == exampleURL)
    }

    @Test func `a slice of a larger body is decoded`() throws {
        let padded = Data([1, 2, 3]) + Samples.gif
        #expect(try decode(padded.dropFirst(3)) == decode(Samples.gif))
    }

    @Test func `several threads can decode concurrently`() throws {
        let bodies = try Samples.all()
        let expected = try bodies.mapValues { try #require(try decode($0)) }
        let wrong = LockedCount()
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            for _ in 0..<50 {
                for (format, body) in bodies where (try? decode(body)) != expected[format] { wrong.increment() }
            }
        }
        #expect(wrong.value == 0)
    }

    @Test func `a request operation delivers the image`() async throws {
        let server = try TestServer()
        defer { server.stop() }
        let body = try Samples.saved("png", width: 60, height: 40)
        server.route("GET", "/image.png", .bytes(body, type: "image/png"))
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/image.png")))
        operation.responseSerializer = ImageResponseSerializer()
        operation.completionQueue = DispatchQueue(label: "Convoy.ImageTests")
        operation.start()
        try await operation.finished()
        let image = try #require(operation.responseObject as? Image)
        #expect(image.pixels == Samples.pixels(width: 60, height: 40))
    }
}

private final class LockedCount: Sendable {
    private let count = Locked(0)
    func increment() { count.withLock { $0 += 1 } }
    var value: Int { count.withLock { $0 } }
}
#endif
