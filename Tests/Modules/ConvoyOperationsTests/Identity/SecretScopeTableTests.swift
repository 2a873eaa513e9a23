import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations
@testable import ConvoyTransport

/// The answers of all code that decides whether a target may receive secrets, over many spellings of targets.
@Suite struct SecretScopeTableTests {
    private static let urls = [
        "http://h.test", "http://h.test:80/a", "HTTP://H.Test/", "http://%68.test/a", "http://user:pw@h.test/",
        "http://h.test:/", "http://h.test:8080/", "http://h.test:443/", "http://h.test./", "http://h.test.:80/a",
        "http://sub.h.test/", "https://h.test/", "HTTPS://h.TEST:443", "https://h.test:80/", "https://h.test:8080/",
        "https://h.test./", "http://xn--bcher-kva.test/", "http://b\u{FC}cher.test/", "https://xn--bcher-kva.test/",
        "http://[::1]/", "http://[0:0::1]:80/", "https://[::1]/", "http://[fe80::1%25eth0]/", "https://[fe80::1%25eth0]/",
        "http://[fe80::1%25eth1]/", "http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://localhost/",
        "ftp://h.test/", "file:///h.test", "//h.test/",
    ]

    /// The code that allows a secret, in the order of the bits in the table.
    private struct Answers: OptionSet {
        let rawValue: Int
        /// The serializer's secrets in a prepared request, in a request with a body, and in one without parameters.
        static let prepared = Answers(rawValue: 1), encoded = Answers(rawValue: 2), bare = Answers(rawValue: 4)
        /// The secret header fields of a session.
        static let session = Answers(rawValue: 8)
        static let authenticator = Answers(rawValue: 16), credential = Answers(rawValue: 32)
        static let manager: Answers = [prepared, encoded, bare, session, authenticator, credential]
        /// The credential, token and certificate of a part of an operation, and its secret field.
        static let partSettings = Answers(rawValue: 64), partField = Answers(rawValue: 128)
        /// The certificate, a secret field, and a refused token after a redirect.
        static let certificate = Answers(rawValue: 256), redirected = Answers(rawValue: 512)
        static let token = Answers(rawValue: 1024)
        /// The fields of a request that was created for a different URL.
        static let copied = Answers(rawValue: 2048)
        /// The answer to a challenge.
        static let challenge = Answers(rawValue: 4096)

        static let all = Answers(rawValue: 8191)
    }

    private static let field = "Authorization"
    private static let identity = ClientIdentity(certificatePEM: Data("certificate".utf8))

    private static func request(_ url: URL) -> URLRequest {
        var request = URLRequest(url: url)
        request.setValue("Bearer secret", forHTTPHeaderField: field)
        return request
    }

    private static func sends(_ request: URLRequest?) -> Bool { request?.value(forHTTPHeaderField: field) != nil }

    private static func manager(_ base: URL?, _ origins: Set<URL> = []) -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: base)
        manager.requestSerializer.setValue("Bearer secret", forHTTPHeaderField: field)
        manager.authorizationOrigins = origins
        manager.credential = URLCredential(user: "ada", password: "pw", persistence: .none)
        manager.authenticator = Authenticator(token: AccessToken("token")) { _ in AccessToken("token") }
        return manager
    }

    private static func answers(_ manager: HTTPRequestOperationManager, at url: URL) -> Answers {
        var answers: Answers = []
        let text = url.absoluteString
        func sends(_ method: HTTPMethod, _ parameters: RequestParameters?) -> Bool {
            let call = RequestArguments(method, text, parameters, nil, [:], nil)
            return Self.sends((try? manager.makeOperation(call))?.request)
        }
        if sends(.get, nil) { answers.insert(.prepared) }
        if sends(.post, ["a": 1]) { answers.insert(.encoded) }
        if Self.sends(try? manager.makeRequest(.get, url)) { answers.insert(.bare) }
        if manager.withheldFields([field], of: URLRequest(url: url)).isEmpty { answers.insert(.session) }
        let operation = manager.makeOperation(request: URLRequest(url: url))
        if operation.core.withLock({ $0.authenticator != nil }) { answers.insert(.authenticator) }
        if operation.core.withLock({ $0.credentialSource.own != nil }) { answers.insert(.credential) }
        return answers
    }

    /// Returns the answers about sending the secrets of a request for one URL to another.
    private static func answers(from one: URL, to other: URL) throws -> Answers {
        var answers: Answers = []
        let parent = HTTPRequestOperation(request: request(one))
        parent.credential = URLCredential(user: "ada", password: "pw", persistence: .none)
        parent.authenticator = Authenticator(token: AccessToken("token")) { _ in AccessToken("token") }
        parent.connectionConfiguration.clientIdentity = identity
        let part = HTTPRequestOperation(request: request(other))
        part.adoptSettings(of: parent, decoding: false)
        let kept = [
            part.credential != nil, part.authenticator != nil, part.connectionConfiguration.clientIdentity != nil,
        ]
        try #require(Set(kept).count == 1)
        if kept[0] { answers.insert(.partSettings) }
        if sends(part.request) { answers.insert(.partField) }

        let configuration = parent.connectionConfiguration
        let connection = RequestChain(request: request(one), configuration: configuration, delegate: Deaf())
        connection.followedRedirects = 1
        if let target = Target(other), connection.tlsContext(for: target) === configuration.tls.context {
            answers.insert(.certificate)
        }
        let head = ResponseHead(url: one, statusCode: 302, headers: [("Location", other.absoluteString)])
        if case .follow(let redirect) = RedirectRules(configuration).evaluate(head, to: request(one), followed: 0),
            sends(redirect.request)
        {
            answers.insert(.redirected)
        }
        if SecretScope(of: one).mayReceiveSecrets(other) { answers.insert(.token) }
        var copy = request(other)
        configuration.removeSecrets(of: &copy, madeFor: one)
        if sends(copy) { answers.insert(.copied) }
        if let own = AuthenticatingServer(one), AuthenticatingServer(other)?.mayUseCredential(of: own) == true {
            answers.insert(.challenge)
        }
        return answers
    }

    private final class Deaf: ConnectionDelegate {
        func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?) {}
        func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {}
        func connectionDidFinish(_ connection: any Connection) {}
        func connection(_ connection: any Connection, didFailWith error: URLError) {}
        func connectionDidCancel(_ connection: any Connection) {}
    }

    /// A row for each first URL, a column for each target: `+` if all code allows secrets, `.` if none does, otherwise a
    /// letter of the legend.
    @Test func `all secrets follow the same rules for a target, except as noted in the legend`() throws {
        let urls = try Self.urls.map { try #require(URL(string: $0), "\($0)") }
        var legend: [Answers] = []
        var table: [String] = []
        for one in urls {
            let (based, extended) = (Self.manager(one), Self.manager(URL(string: "https://other.test/"), [one]))
            var row = ""
            for other in urls {
                let ofManager = Self.answers(based, at: other)
                // An additional origin is equivalent to the base, except for the base of relative URLs.
                if Target(other) != nil {
                    let same = Self.answers(extended, at: other)
                    #expect(same == ofManager, "\(one) \(other) \(same) \(ofManager)")
                }
                let answers = try ofManager.union(Self.answers(from: one, to: other))
                if answers == .all {
                    row += "+"
                } else if answers == [] {
                    row += "."
                } else {
                    if !legend.contains(answers) { legend.append(answers) }
                    let number = try #require(legend.firstIndex(of: answers))
                    row += String(UnicodeScalar(UInt8(97 + number)))
                }
            }
            table.append(row)
        }
        let text = table.joined(separator: "\n")
        #expect(text == Self.table, "\n\(text)\n")
        #expect(legend.map(\.rawValue) == Self.legend.map(\.rawValue), "\(legend.map(\.rawValue))")
    }

    private static let legend: [Answers] = [
        // a: A redirect to a URL with user information is refused.
        .all.subtracting(.redirected),
        // b: A credential is also sent to the same name with a dot, and to the same host over TLS.
        .challenge,
        // c: A call and a redirect resolve a relative reference.
        [.prepared, .encoded, .redirected],
        // d: A part for the same URL has the secrets, even if that URL has no target.
        [.partSettings, .partField],
    ]
    private static let table = """
        ++++a+..bb.bb..b...............c
        ++++a+..bb.bb..b...............c
        ++++a+..bb.bb..b...............c
        ++++a+..bb.bb..b...............c
        ++++a+..bb.bb..b...............c
        ++++a+..bb.bb..b...............c
        ......+.........................
        .......+........................
        bbbbbb..++.bb..b................
        bbbbbb..++.bb..b................
        ..........+.....................
        ...........++..b...............c
        ...........++..b...............c
        .............+..................
        ..............+.................
        ...........bb..+................
        ................++b.............
        ................++b.............
        ..................+.............
        ...................++b..........
        ...................++b..........
        .....................+..........
        ......................+b........
        .......................+........
        ........................+.......
        .........................+++....
        .........................+++....
        .........................+++....
        ............................+...
        .............................d..
        ..............................d.
        ...............................d
        """

    @Test func `without a base URL, all targets receive the secrets of a manager`() throws {
        for manager in [Self.manager(nil), Self.manager(nil, [try #require(URL(string: "http://h.test/"))])] {
            for text in Self.urls {
                let url = try #require(URL(string: text))
                // A call needs a base for a relative URL.
                let expected = url.scheme == nil ? Answers.manager.subtracting([.prepared, .encoded]) : .manager
                #expect(Self.answers(manager, at: url) == expected, "\(text)")
            }
        }
    }

    @Test func `a client certificate is kept after a redirect if HSTS has upgraded the first request`() throws {
        let store = HSTSStore()
        store.note("max-age=1000", fromHost: "h.test")
        var configuration = ConnectionConfiguration()
        configuration.hsts = store
        configuration.clientIdentity = Self.identity
        let first = URLRequest(url: try #require(URL(string: "http://h.test/")))
        let connection = RequestChain(request: first, configuration: configuration, delegate: Deaf())
        connection.followedRedirects = 1
        for (text, isKept) in [("https://h.test/a", true), ("https://h.test:8443/", false), ("https://i.test/", false)] {
            let target = try #require(Target(text))
            #expect((connection.tlsContext(for: target) === configuration.tls.context) == isKept, "\(text)")
        }
    }
}
