import ConvoySupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct RequestHeaderTests {
    private func field(
        _ name: String, _ serializer: HTTPRequestSerializer, _ headers: [String: String?] = [:]
    ) throws
        -> String?
    {
        try serializer.request(method: .get, url: exampleURL, parameters: nil, headers: headers)
            .value(forHTTPHeaderField: name)
    }

    @Test func `languages have decreasing weights down to 0.5`() {
        #expect(DefaultHeaders.acceptLanguage(["en", "fr"]) == "en, fr;q=0.9")
        #expect(
            DefaultHeaders.acceptLanguage(["a", "b", "c", "d", "e", "f", "g"])
                == "a, b;q=0.9, c;q=0.8, d;q=0.7, e;q=0.6, f;q=0.5")
    }

    @Test(
        arguments: [
            ([:], []), (["LANG": "C.UTF-8"], []), (["LANG": "POSIX", "LANGUAGE": "de"], []),
            (["LC_ALL": "", "LANG": ""], []),
            (["LANG": "de_DE.UTF-8"], ["de-DE"]), (["LANG": "de_DE", "LC_MESSAGES": "fr_FR@euro"], ["fr-FR"]),
            (["LANG": "de_DE", "LC_ALL": "C"], []),
            (["LANG": "de_DE", "LANGUAGE": "de_AT:de::C:en"], ["de-AT", "de", "en"]),
        ] as [([String: String], [String])])
    func `the locale determines the languages`(environment: [String: String], languages: [String]) {
        #expect(DefaultHeaders.languages(of: environment) == languages)
    }

    @Test func `a new serializer sends the user's languages and the program's name`() throws {
        let serializer = HTTPRequestSerializer()
        let languages = DefaultHeaders.acceptLanguage(DefaultHeaders.languages(of: ProcessInfo.processInfo.environment))
        #expect(try field("Accept-Language", serializer) == (languages.isEmpty ? nil : languages))
        let agent = try #require(try field("User-Agent", serializer))
        #expect(agent == UserAgent.standard)
        #expect(agent.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F })
        #expect(try field("Accept", serializer) == nil)
        #expect(try field("Accept-Encoding", serializer) == nil)
    }

    @Test func `a program's name is converted to a valid header value`() {
        #expect(UserAgent.text(name: "My Äpp", version: "2.1") == "My_pp/2.1 (Linux)")
        #expect(UserAgent.text(name: "日本", version: "") == "Convoy/1.0 (Linux)")
    }

    @Test func `headers are set, read, replaced and removed case-insensitively`() throws {
        var serializer = HTTPRequestSerializer()
        serializer.setValue("1", forHTTPHeaderField: "X-Test")
        #expect(serializer.value(forHTTPHeaderField: "x-test") == "1")
        #expect(try field("X-Test", serializer) == "1")
        serializer.setValue("2", forHTTPHeaderField: "x-TEST")
        #expect(serializer.httpRequestHeaders.filter { $0.key.lowercased() == "x-test" }.count == 1)
        #expect(try field("X-Test", serializer) == "2")
        serializer.setValue(nil, forHTTPHeaderField: "X-Test")
        #expect(try field("X-Test", serializer) == nil)
    }

    @Test func `an existing header of the request is kept`() throws {
        var serializer = HTTPRequestSerializer()
        serializer.setValue("serializer", forHTTPHeaderField: "X-Test")
        var request = URLRequest(url: exampleURL)
        request.setValue("request", forHTTPHeaderField: "x-test")
        let result = try serializer.request(bySerializing: request, with: nil)
        #expect(result.value(forHTTPHeaderField: "X-Test") == "request")
        #expect(result.value(forHTTPHeaderField: "User-Agent") == UserAgent.standard)
    }

    @Test func `a request's own headers override the serializer's, and nil removes them`() throws {
        var serializer = HTTPRequestSerializer()
        serializer.setValue("serializer", forHTTPHeaderField: "X-Test")
        #expect(try field("X-Test", serializer, ["x-test": "mine"]) == "mine")
        #expect(try field("X-Test", serializer, ["x-test": nil]) == nil)
        #expect(try field("User-Agent", serializer, ["User-Agent": nil]) == nil)
        #expect(try field("X-Test", serializer) == "serializer")
        let post = try JSONRequestSerializer().request(
            method: .post, url: exampleURL, parameters: [:], headers: ["Content-Type": nil])
        #expect(post.value(forHTTPHeaderField: "Content-Type") == nil)
    }

    @Test func `a header in two spellings is rejected`() throws {
        let both: [[String: String?]] = [
            ["Content-Type": "application/json", "content-type": "text/plain"], ["X-A": "1", "x-a": "1"],
            ["Accept": nil, "ACCEPT": "text/html"],
        ]
        for serializer in [HTTPRequestSerializer(), JSONRequestSerializer()] as [any URLRequestSerialization] {
            for headers in both {
                let error = failure {
                    try serializer.request(method: .post, url: exampleURL, parameters: ["a": 1], headers: headers)
                }
                #expect(reason(error) == .repeatedHeader, "\(headers)")
                #expect(error?.localizedFailureReason?.contains("given twice, in different spellings") == true)
            }
            var request = URLRequest(url: exampleURL)
            request.allHTTPHeaderFields = ["X-A": "1", "x-a": "2"]
            #expect(reason(failure { try serializer.request(bySerializing: request, with: nil) }) == .repeatedHeader)
        }
        let fine = try JSONRequestSerializer().request(
            method: .post, url: exampleURL, parameters: [:], headers: ["content-type": "application/vnd.x+json"])
        #expect(fine.allHTTPHeaderFields?.filter { $0.key.lowercased() == "content-type" }.count == 1)
        #expect(fine.value(forHTTPHeaderField: "Content-Type") == "application/vnd.x+json")
    }

    @Test func `authorization can be Basic, Bearer or absent`() throws {
        var serializer = HTTPRequestSerializer()
        serializer.setAuthorizationHeader(username: "Aladdin", password: "open sesame")
        #expect(try field("Authorization", serializer) == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
        serializer.setAuthorizationHeader(username: "ü", password: "é:é")
        #expect(try field("Authorization", serializer) == "Basic w7w6w6k6w6k=")
        serializer.setAuthorizationHeader(bearerToken: "abc.def")
        #expect(try field("Authorization", serializer) == "Bearer abc.def")
        serializer.clearAuthorizationHeader()
        #expect(try field("Authorization", serializer) == nil)
    }

    @Test func `a user name with a colon is rejected until it is replaced`() throws {
        var serializer = HTTPRequestSerializer()
        serializer.setAuthorizationHeader(username: "a:b", password: "c")
        #expect(reason(failure { try field("Authorization", serializer) }) == .invalidUserName)
        serializer.setAuthorizationHeader(bearerToken: "t")
        #expect(try field("Authorization", serializer) == "Bearer t")
    }

    @Test(arguments: ["a\r\nX-Evil: 1", "a\nb", "a\0b", "a\u{7F}", "\u{1B}[2J"])
    func `a control character in a value is an error`(value: String) throws {
        var serializer = HTTPRequestSerializer()
        serializer.setValue(value, forHTTPHeaderField: "X-Test")
        let stored = failure { try field("X-Test", serializer) }
        #expect(stored?.domain == URLRequestSerializationErrorDomain)
        #expect(stored?.code == NSURLErrorCannotDecodeContentData)
        #expect(reason(stored) == .invalidHeaderValue)
        #expect(stored?.userInfo[URLRequestSerializationErrorKey.subject] as? String == "X-Test")
        let told = String(describing: stored?.userInfo)
        #expect(!told.contains("Evil"), "a value can be a secret")
        #expect(
            reason(failure { try field("X-Test", HTTPRequestSerializer(), ["X-Test": value]) }) == .invalidHeaderValue)
        serializer.setValue("fine\tit is", forHTTPHeaderField: "x-test")
        #expect(try field("X-Test", serializer) == "fine\tit is")
    }

    @Test(arguments: ["", "a b", "a:", "é", "a\r\n", "(x)"])
    func `a name that is not a token is an error`(name: String) {
        var serializer = HTTPRequestSerializer()
        serializer.setValue("1", forHTTPHeaderField: name)
        #expect(reason(failure { try field("X", serializer) }) == .invalidHeaderName)
        #expect(reason(failure { try field("X", HTTPRequestSerializer(), [name: nil]) }) == .invalidHeaderName)
    }

    @Test(arguments: ["", "GE T", "GET\r\nX: 1", "PÖST", "a/b"])
    func `a method that is not a token is an error`(method: String) {
        for serializer in [HTTPRequestSerializer(), JSONRequestSerializer()] as [any URLRequestSerialization] {
            let error = failure { try serializer.request(method: HTTPMethod(method), url: exampleURL) }
            #expect(reason(error) == .invalidMethod)
            #expect(error?.code == -1016)
        }
    }

    @Test func `a method is sent with its original spelling`() throws {
        let request = try HTTPRequestSerializer().request(method: "x-purge", url: exampleURL)
        #expect(request.httpMethod == "x-purge")
    }

    @Test func `a request without a URL is rejected`() throws {
        var request = URLRequest(url: exampleURL)
        request.url = nil
        let error = failure { try HTTPRequestSerializer().request(bySerializing: request, with: nil) }
        #expect(error?.code == NSURLErrorBadURL)
        #expect(reason(error) == .invalidURL)
    }
}
