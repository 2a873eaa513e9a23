import ConvoyOperations
import ConvoySerialization
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import FoundationXML
import Testing

/// Parsed responses of an independent server.
@Suite(.needsHttpbin) struct ContentTests {
    let manager: HTTPRequestOperationManager

    init() throws { manager = try Shared.manager() }

    @Test(arguments: [("gzip", "gzipped", "gzip"), ("deflate", "deflated", "deflate"), ("brotli", "brotli", "br")])
    func `a compressed body is decoded`(path: String, key: String, encoding: String) async throws {
        let operation = try await manager.response(.get, path)
        #expect(operation.response?.value(forHTTPHeaderField: "Content-Encoding") == encoding)
        let object = try #require(operation.responseObject as? [String: Any])
        #expect(object[key] as? Bool == true && object["method"] as? String == "GET")
        // The encoding was requested, except deflate, which this server sends without a request.
        let accepted = (object["headers"] as? [String: String])?["Accept-Encoding"] ?? ""
        #expect(accepted.contains(encoding) == (encoding != "deflate"))
    }

    @Test func `text from all of Unicode arrives unchanged`() async throws {
        manager.responseSerializer = StringResponseSerializer()
        let operation = try await manager.response(.get, "encoding/utf8")
        let text = try #require(operation.responseObject as? String)
        let file = try Shared.template("UTF-8-demo.txt")
        // The server omits the last line break.
        #expect(Data(text.utf8) == file.dropLast() && text.contains("STARGΛ̊TE SG-1"))
        #expect(operation.responseString == text)
        #expect(operation.response?.textEncodingName?.lowercased() == "utf-8")
    }

    @Test func `a value is decoded as its type`() async throws {
        struct Answer: Decodable, Sendable { var uuid: UUID }
        let one: Answer = try await manager.get("uuid")
        let other: Answer = try await manager.get("uuid")
        #expect(one.uuid != other.uuid)
    }

    @Test func `the error for a value of another shape contains its coding path`() async throws {
        struct Answer: Decodable, Sendable { var uuid: Int }
        let error = await #expect(throws: HTTPError.self) { let _: Answer = try await manager.get("uuid") }
        #expect(error?.decodingError != nil && error?.localizedDescription.contains("At uuid: ") == true)
    }

    @Test func `a JSON sample is parsed completely`() async throws {
        struct Sample: Decodable, Sendable {
            struct Show: Decodable, Sendable {
                struct Slide: Decodable, Sendable { var title: String, type: String, items: [String]? }
                var author: String, date: String, slides: [Slide], title: String
            }
            var slideshow: Show
        }
        let sample: Sample = try await manager.get("json")
        #expect(sample.slideshow.author == "Yours Truly" && sample.slideshow.slides.count == 2)
        #expect(sample.slideshow.slides.last?.items?.count == 2)
    }

    @Test func `an XML sample becomes a parser that has not started`() async throws {
        final class Counter: NSObject, XMLParserDelegate {
            var elements: [String] = []
            func parser(
                _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
                attributes: [String: String]
            ) { elements.append(name) }
        }
        let operation = try await manager.send(.get, "xml") { $0.responseSerializer = XMLParserResponseSerializer() }
        let parser = try #require(operation.responseObject as? XMLParser)
        let counter = Counter()
        parser.delegate = counter
        #expect(parser.parse())
        #expect(counter.elements.prefix(3) == ["slideshow", "slide", "title"])
        #expect(counter.elements.filter { $0 == "slide" }.count == 2)
    }

    @Test func `an XML sample becomes a document`() async throws {
        let operation = try await manager.send(.get, "xml") { $0.responseSerializer = XMLDocumentResponseSerializer() }
        let document = try #require(operation.responseObject as? XMLDocument)
        let root = try #require(document.rootElement())
        #expect(root.name == "slideshow")
        #expect(root.attribute(forName: "author")?.stringValue == "Yours Truly")
        let titles = try document.nodes(forXPath: "/slideshow/slide/title").map(\.stringValue)
        #expect(titles == ["Wake up to WonderWidgets!", "Overview"])
    }

    @Test func `an HTML page is rejected as XML by its content type`() async throws {
        manager.responseSerializer = XMLDocumentResponseSerializer()
        let (_, error) = try await manager.failure(.get, "html")
        #expect((error as NSError?)?.code == NSURLErrorCannotDecodeContentData)
    }

    @Test func `one of several serializers parses the response`() async throws {
        let both = CompoundResponseSerializer([JSONResponseSerializer(), XMLDocumentResponseSerializer()])
        let json = try await manager.send(.get, "json") { $0.responseSerializer = both }
        #expect(json.responseObject is [String: Any])
        let xml = try await manager.send(.get, "xml") { $0.responseSerializer = both }
        #expect(xml.responseObject is XMLDocument)
    }

    @Test(arguments: [
        ("png", "image/png", "pig_icon.png"), ("jpeg", "image/jpeg", "jackal.jpg"),
        ("webp", "image/webp", "wolf_1.webp"), ("svg", "image/svg+xml", "svg_logo.svg"),
    ])
    func `an image arrives unchanged, with its content type`(kind: String, type: String, file: String) async throws {
        var serializer = HTTPResponseSerializer()
        serializer.acceptableContentTypes = [type]
        manager.responseSerializer = serializer
        let operation = try await manager.response(.get, "image/\(kind)")
        #expect(operation.response?.mimeType == type)
        #expect(operation.responseData == (try Shared.template("images/\(file)")))
        // The header field selects the same image by its content type.
        let asked = try await manager.response(.get, "image", headers: ["Accept": type])
        #expect(asked.responseData == operation.responseData)
    }

    @Test func `repeated headers are joined`() async throws {
        let operation = try await manager.response(
            .get, "response-headers?X-Twice=one&X-Twice=two&X-Once=%C3%A9&Cache-Control=no-store")
        let response = try #require(operation.response)
        #expect(response.value(forHTTPHeaderField: "x-twice") == "one, two")
        #expect(response.value(forHTTPHeaderField: "Cache-Control") == "no-store")
        let object = try #require(operation.responseObject as? [String: Any])
        #expect(object["X-Twice"] as? [String] == ["one", "two"])
    }

    @Test func `the links of a page can be followed`() async throws {
        manager.responseSerializer = StringResponseSerializer()
        let page = try await manager.response(.get, "links/5")
        #expect(page.response?.url?.path == "/links/5/0")
        let text = try #require(page.responseObject as? String)
        let ends = text.components(separatedBy: "href='").dropFirst()
        let links = ends.compactMap { $0.components(separatedBy: "'").first }
        #expect(links == ["/links/5/1", "/links/5/2", "/links/5/3", "/links/5/4"])
        for link in links {
            let next = try await manager.response(.get, link)
            #expect((next.responseObject as? String)?.contains("href='/links/5/0'") == true)
        }
    }
}
