import ConvoyCache
import ConvoyCookies
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations
@testable import ConvoyTransport

/// Tests that two identities share something only if they are equal, with thousands of random pairs that differ in one
/// part, in many, or not at all.
@Suite struct IdentityPropertyTests {
    /// The identity of a request, as the numbers and strings from which it is created.
    struct Spec: Hashable {
        var name: ExactString?
        /// The user of the authorizer.
        var user: ExactString?
        /// The user whose connections a proxy opens.
        var proxyUser: ExactString?
        /// The request's own fields. `X-Tenant` is marked by the configuration.
        var authorization, apiKey, tenant, cookie: ExactString?
        /// The index of a store; the last two stores have the same file.
        var store: Int?
        /// The index of a certificate; the last two are the same certificate in two objects.
        var certificate: Int?
        var policy = 0
        var host: ExactString?
        var address: Int?
        var socket: Int?

        static let changes: [@Sendable (inout Spec, inout SplitMix64) -> Void] = [
            { $0.name = text(&$1) }, { $0.user = text(&$1) }, { $0.proxyUser = text(&$1) }, { $0.authorization = text(&$1) },
            { $0.apiKey = text(&$1) }, { $0.tenant = text(&$1) }, { $0.cookie = text(&$1) },
            { $0.store = number(4, &$1) }, { $0.certificate = number(3, &$1) },
            { $0.policy = number(3, &$1) ?? 0 }, { $0.host = text(&$1) }, { $0.address = number(2, &$1) },
            { $0.socket = number(2, &$1) },
        ]

        /// Returns one of several strings that are easily confused: by Unicode equivalence, by case, or when
        /// concatenated.
        private static func text(_ random: inout SplitMix64) -> ExactString? {
            let texts = [
                nil, nil, nil, "ada", "eve", "Ada", "\u{E9}", "e\u{301}", "K", "\u{212A}", "a;b", "a\u{37E}b", "3:ada",
                "ada5:field", "a,b", "a, b", "\u{1F600}",
            ]
            return (texts.randomElement(using: &random) ?? nil).map(ExactString.init)
        }

        private static func number(_ count: Int, _ random: inout SplitMix64) -> Int? {
            Bool.random(using: &random) ? Int.random(in: 0..<count, using: &random) : nil
        }

        static func random(_ random: inout SplitMix64) -> Spec {
            var spec = Spec()
            for change in changes where Int.random(in: 0..<3, using: &random) == 0 { change(&spec, &random) }
            return spec
        }

        /// Returns an identity that differs in one part, in any number of parts, or not at all.
        func neighbour(_ random: inout SplitMix64) -> Spec {
            var spec = self
            switch Int.random(in: 0..<8, using: &random) {
            case 0: break
            case 1: spec = .random(&random)
            default: Spec.changes.randomElement(using: &random)?(&spec, &random)
            }
            return spec
        }

        // MARK: An independent definition of distinct identities

        /// The indices of the store and the certificate by content, because two objects can have the same content.
        private var storeMeant: Int? { store == 3 ? 2 : store }
        private var certificateMeant: Int? { certificate == 2 ? 1 : certificate }
        private var place: [Int?] { socket != nil ? [socket, nil] : [nil, address] }

        var stored: Spec {
            var spec = Spec()
            if name != nil {
                spec.name = name
            } else {
                spec = self
                spec.store = cookie == nil ? storeMeant : nil
                if user != nil { spec.authorization = nil }
            }
            spec.proxyUser = nil
            (spec.certificate, spec.policy) = (certificateMeant, policy)
            spec.host = host.map { host in
                let lowered = host.text.unicodeScalars.map { scalar -> Unicode.Scalar in
                    ("A"..."Z").contains(scalar) ? Unicode.Scalar(scalar.value + 32) ?? scalar : scalar
                }
                return ExactString(String(String.UnicodeScalarView(lowered)))
            }
            (spec.socket, spec.address) = (place[0], place[1])
            return spec
        }

        var connected: Spec {
            var spec = Spec()
            (spec.name, spec.certificate, spec.policy) = (name, certificate, policy)
            (spec.socket, spec.address) = (place[0], place[1])
            // A Unix socket is reached without a proxy.
            spec.proxyUser = socket == nil ? proxyUser : nil
            return spec
        }
    }

    private let url = "https://api.example/account"
    private let stores: [CookieStore]
    private let identities: [ClientIdentity]
    private let policies: [SecurityPolicy]
    private let prepared: [TLSContext]
    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory(prefix: "convoy-identity")
        let file = directory.file("cookies.sqlite")
        stores = [CookieStore(), CookieStore(), try CookieStore(file: file), try CookieStore(file: file)]
        for (number, store) in stores.enumerated() {
            store.setCookies(["session\(number)=1; Max-Age=86400"], from: try #require(URL(string: url)))
        }
        // The stores with the same file learn each other's cookies now; later, that would change their revisions.
        for store in [stores[2], stores[3], stores[2]] { try store.flush() }
        let root = try TestCertificate.root()
        let pems = try ["ada", "eve"].map { name in
            let certificate = try root.issue(.client(name))
            return Data((certificate.chainPEM + certificate.privateKeyPEM).utf8)
        }
        let identities = [pems[0], pems[1], pems[1]].map { ClientIdentity(certificatePEM: $0) }
        self.identities = identities
        let lax = {
            var policy = SecurityPolicy()
            (policy.allowInvalidCertificates, policy.validatesDomainName) = (true, false)
            return policy
        }()
        var ofHost = SecurityPolicy()
        try ofHost.setPolicy(try SecurityPolicy(publicKeyPins: [root.publicKeyPin]), forHosts: "api.example")
        let policies = [SecurityPolicy.default, lax, ofHost]
        self.policies = policies
        // As in the transport, prepare the TLS settings before querying a cache.
        prepared = (identities.map(Optional.some) + [nil]).flatMap { identity in
            policies.map { policy in
                var configuration = ConnectionConfiguration()
                (configuration.securityPolicy, configuration.clientIdentity) = (policy, identity)
                configuration.tls.context.prepare(on: { $0() }) { #expect($0 == nil) }
                return configuration.tls.context
            }
        }
    }

    // MARK: Creating requests

    private func configuration(_ spec: Spec) throws -> ConnectionConfiguration {
        var configuration = ConnectionConfiguration(sensitiveHeaders: ["x-tenant"])
        configuration.identity = spec.name?.text
        configuration.proxy = .none
        if let user = spec.proxyUser {
            configuration.proxy = .proxy(
                try Proxy(.http, host: "proxy.example", credential: ProxyCredential(user: user.text, password: "pw")))
        }
        configuration.securityPolicy = policies[spec.policy]
        configuration.clientIdentity = spec.certificate.map { identities[$0] }
        configuration.addressOverrides = spec.address.map { ["api.example": "127.0.0.\($0 + 1)"] } ?? [:]
        configuration.unixSocket = spec.socket.map { "/run/\($0)" }
        configuration.cookies = spec.store.map { CookieKeeperReference(stores[$0]) }
        return configuration
    }

    private func fields(_ spec: Spec) -> [String: String] {
        [
            "Authorization": spec.authorization, "X-Api-Key": spec.apiKey, "X-Tenant": spec.tenant, "Cookie": spec.cookie,
            "Host": spec.host, "Accept": ExactString("*/*"),
        ].compactMapValues { $0?.text }
    }

    private func request(_ spec: Spec) throws -> URLRequest {
        var request = URLRequest(url: try #require(URL(string: url)))
        request.allHTTPHeaderFields = fields(spec)
        return request
    }

    private func cookieField(_ spec: Spec) throws -> [UInt8]? {
        let address = try #require(HTTPAddress(url))
        let target = try #require(CookieTarget(address, keepingDotSegments: false))
        return spec.store.flatMap { stores[$0].field(for: target, site: nil, isSafeMethod: true) }
    }

    private func partition(_ spec: Spec) throws -> String {
        let configuration = try configuration(spec)
        var source = RequestHeader.Source(fields: fields(spec))
        source.cookie = try cookieField(spec)
        let credential = spec.user.map { (user: $0.text, password: "pw") }
        source.authorization = credential.flatMap { BasicAuthorization.value(user: $0.user, password: $0.password) }
        let header = try RequestHeader(source, url: nil)
        let view = try #require(
            header.view(
                configuration.secrets, isNamed: configuration.routing.settings.identity != nil, salt: { "salt" }))
        // The stored fields contain no secrets.
        let secrets = ["x-api-key", "x-tenant", "cookie", "authorization"]
        for field in view.fields where secrets.contains(field.name.lowercased()) {
            #expect(field.value == "named" || field.value.utf8.count == 64)
        }
        let identity = configuration.identity(
            at: Target(url), view.secret, credential: credential, tls: configuration.tls.context)
        return try #require(identity.partition(salt: "salt"))
    }

    /// Returns the values that decide whether libcurl reuses a connection for another request to the same URL.
    private func connectionKey(_ spec: Spec) throws -> [String] {
        let configuration = try configuration(spec)
        let target = try #require(Target(url))
        let route = try configuration.routing.route(to: target)
        return [
            "\(route?.key?.number ?? 0)", route?.proxyText ?? "", route?.connectTo ?? "", route?.unixSocket?.name ?? "",
            configuration.tls.context.connectionKey,
        ]
    }

    // MARK: Properties

    @Test func `a request without credentials and with default trust has no identity`() throws {
        var spec = Spec()
        #expect(try configuration(spec).identity(of: request(spec)).isEmpty)
        #expect(try partition(spec) == "")
        spec.policy = 1
        #expect(try !configuration(spec).identity(of: request(spec)).isEmpty)
    }

    @Test func `two requests share stored responses and connections only if their identities are equal`() throws {
        var random = SplitMix64.printingSeed()
        var (equal, different) = (0, 0)
        for _ in 0..<PropertyBudget.rounds(300) {
            let one = Spec.random(&random)
            let other = one.neighbour(&random)
            let sharesStored = try partition(one) == partition(other)
            #expect(sharesStored == (one.stored == other.stored), "\(one) \(other)")
            let sharesConnection = try connectionKey(one) == connectionKey(other)
            #expect(sharesConnection == (one.connected == other.connected), "\(one) \(other)")
            if sharesStored { equal += 1 } else { different += 1 }
        }
        #expect(equal > 20 && different > 20)
        withExtendedLifetime(prepared) {}
    }

    @Test func `two requests share a transfer only if they are completely equal`() throws {
        var random = SplitMix64.printingSeed()
        var equal = 0
        for _ in 0..<PropertyBudget.rounds(300) {
            let one = Spec.random(&random)
            let other = one.neighbour(&random)
            func key(_ spec: Spec) throws -> SharedTransferKey {
                var configuration = try configuration(spec)
                // Each operation that was challenged has its own record.
                if spec.user != nil {
                    configuration.authorizer = AuthorizerReference(AuthenticationRecord(CredentialSource()))
                }
                return try #require(SharedTransferKey(request(spec), configuration))
            }
            let shares = try key(one) == key(other)
            // Transfers are shared only by requests that send the same bytes, which is a stronger condition than for
            // stored responses.
            #expect(shares == (one == other && one.user == nil), "\(one) \(other)")
            if shares {
                #expect(one.stored == other.stored)
                equal += 1
            }
        }
        #expect(equal > 20)
    }

    @Test func `each request of a pair sends its own cookies and credentials`() throws {
        var random = SplitMix64.printingSeed()
        let address = try #require(URL(string: url))
        let server = try #require(AuthenticatingServer(address))
        let memory = AuthorizationMemory()
        func credential(_ spec: Spec) throws -> String? {
            var source = CredentialSource()
            // A user name for Basic cannot contain a colon (RFC 7617, section 2).
            let name = spec.user?.text.replacingOccurrences(of: ":", with: "|")
            source.own = name.map { URLCredential(user: $0, password: "pw", persistence: .forSession) }
            source.ownServer = server
            source.store = CredentialStore()
            let record = AuthenticationRecord(source, memory: memory)
            guard case .ask(let questions) = record.evaluate(["Basic realm=\"r\""], of: server) else { return nil }
            let question = try #require(questions.first)
            guard let proposed = question.proposedCredential else { return nil }
            #expect(record.answer(question, with: proposed, keeps: true))
            let target = AuthorizationTarget(
                server: server, method: "GET", uri: "/account", body: Data(), mayBlock: false, hasOwn: false)
            guard case .field(let value, let user, _) = record.authorization(for: target) else { return nil }
            #expect(user.isExactly(name ?? ""))
            record.noteSuccess(except: nil, at: server, info: [])
            return value
        }
        for _ in 0..<PropertyBudget.rounds(300) {
            let one = Spec.random(&random)
            let other = one.neighbour(&random)
            #expect((try credential(one) == credential(other)) == (one.user == other.user), "\(one) \(other)")
            let own = one.store == other.store || Set([one.store, other.store]) == [2, 3]
            #expect((try cookieField(one) == cookieField(other)) == own || own, "\(one) \(other)")
        }
    }

    @Test func `random pairs of requests to a real server never receive each other's page`() async throws {
        let server = try TestServer()
        server.route("GET", "/account") { request in
            let names = ["Authorization", "Cookie", "X-Api-Key", "X-Tenant"]
            return .text(names.map { "\($0)=\(request.headers[$0] ?? "")" }.joined(separator: "&"))
                .header("Cache-Control", "max-age=600")
        }
        for store in stores { store.setCookies(["account=1"], from: server.url) }
        var random = SplitMix64.printingSeed()
        for _ in 0..<60 {
            // In every round, make each store read the changes of the other store with the same file.
            for store in stores { try store.flush() }
            let cache = HTTPCache()
            var one = Spec.random(&random)
            var other = one.neighbour(&random)
            func simplify(_ spec: inout Spec) {
                (spec.user, spec.proxyUser, spec.certificate, spec.policy) = (nil, nil, nil, 0)
                (spec.host, spec.address, spec.socket) = (nil, nil, nil)
                // Of the two stores with the same file, one has the file, and the other only the contents that it has
                // read.
                if spec.store == 3 { spec.store = 2 }
            }
            simplify(&one)
            simplify(&other)
            func get(_ spec: Spec) async throws -> HTTPRequestOperation {
                let manager = HTTPRequestOperationManager(completionQueue: testQueue)
                manager.responseSerializer = HTTPResponseSerializer()
                manager.connectionConfiguration = try configuration(spec)
                manager.cache = cache
                manager.cookieStore = spec.store.map { stores[$0] }
                manager.coalescesIdenticalRequests = Bool.random(using: &random)
                var request = URLRequest(url: server.url("/account"))
                request.allHTTPHeaderFields = fields(spec)
                let operation = manager.enqueue(manager.makeOperation(request: request))
                try await operation.finished()
                return operation
            }
            let first = try await get(one)
            let second = try await get(other)
            #expect(first.cacheUse == nil)
            #expect((second.cacheUse == .fresh) == (one.stored == other.stored), "\(one) \(other)")
            #expect(try await get(one).responseString == first.responseString)
            #expect(try await get(one).cacheUse == .fresh)
        }
    }
}
