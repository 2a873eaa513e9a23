import ConvoySecurity
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Requests through real proxy programs.
@Suite(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)")) struct RealProxyTests {
    /// A proxy program, its protocol, and whether it requires a user.
    enum Way: String, CaseIterable, Sendable {
        case squid, squidWithUser, microsocks, microsocksResolvingHere, microsocksWithUser, danted, danted4

        /// The program, if it uses SOCKS.
        private var program: SocksProgram.Kind? {
            switch self {
            case .squid, .squidWithUser: nil
            case .microsocks, .microsocksResolvingHere, .microsocksWithUser: .microsocks
            case .danted, .danted4: .danted
            }
        }

        var kind: Proxy.Kind {
            switch self {
            case .squid, .squidWithUser: .http
            case .microsocks, .microsocksWithUser, .danted: .socks5
            case .microsocksResolvingHere: .socks5ResolvingHere
            case .danted4: .socks4
            }
        }

        var credential: ProxyCredential? {
            guard self == .squidWithUser || self == .microsocksWithUser else { return nil }
            return ProxyCredential(user: "ada", password: "p%41 w:@/é")
        }

        /// Whether the program is installed. If it is missing, this prints a hint.
        var isThere: Bool {
            if program?.isInstalled ?? SquidProxy.isInstalled { return true }
            print("skipped: needs \(program?.installHint ?? SquidProxy.installHint)")
            return false
        }

        func start() throws -> any ProxyServer {
            if let program {
                return try SocksProgram(program, user: credential?.user, password: credential?.password ?? "")
            }
            guard let credential else { return try SquidProxy([]) }
            return try SquidProxy([.basic], users: [credential.user: credential.password])
        }

        func proxy(at port: UInt16, as credential: ProxyCredential?) throws -> Proxy {
            try Proxy(kind, host: "127.0.0.1", port: Int(port), credential: credential)
        }
    }

    private func get(
        _ url: URL, through selection: ProxySelection, trusting nginx: Nginx, on thread: NetworkThread
    ) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        configuration.proxy = selection
        return try #require(load(URLRequest(url: url), configuration: configuration, thread: thread))
    }

    @Test(arguments: Way.allCases)
    func `plain and secure requests pass through the proxy`(_ way: Way) throws {
        guard way.isThere else { return }
        let nginx = try Nginx()
        let program = try way.start()
        let proxy = try way.proxy(at: program.port, as: way.credential)
        let thread = NetworkThread()
        // This machine's name could resolve to an address on which nginx does not listen.
        let secure = try #require(URL(string: "https://127.0.0.1:\(nginx.securePort)/credentials"))
        for url in [nginx.url("credentials"), secure] {
            for round in 1...3 {
                let heard = try get(url, through: .proxy(proxy), trusting: nginx, on: thread)
                #expect(heard.text == "[][]", "\(way) \(round): \(heard.ends)")
                #expect(heard.heads.map(\.statusCode) == [200])
            }
        }
        // Requests fail without the proxy, so the proxy made the connections.
        program.stop()
        let heard = try get(nginx.url("small"), through: .proxy(proxy), trusting: nginx, on: NetworkThread())
        #expect(heard.error?.code == .cannotConnectToHost)
    }

    @Test(arguments: [Way.squidWithUser, .microsocksWithUser])
    func `a connection serves only requests with the credential that opened it`(_ way: Way) throws {
        guard way.isThere else { return }
        let nginx = try Nginx()
        let program = try way.start()
        let thread = NetworkThread()
        let right = try way.proxy(at: program.port, as: way.credential)
        let strangers = [
            try way.proxy(at: program.port, as: nil),
            try way.proxy(at: program.port, as: ProxyCredential(user: "ada", password: "wrong")),
            try way.proxy(at: program.port, as: ProxyCredential(user: "eve", password: "p%41 w:@/é")),
        ]
        for url in [nginx.url("small"), nginx.secureURL("small")] {
            // Each handle has already used the credential.
            #expect(try get(url, through: .proxy(right), trusting: nginx, on: thread).text == "hello world")
            for stranger in strangers {
                let heard = try get(url, through: .proxy(stranger), trusting: nginx, on: thread)
                if url.scheme == "http", way == .squidWithUser {
                    #expect(heard.heads.map(\.statusCode) == [407])
                } else {
                    #expect(heard.error?.code == .userAuthenticationRequired, "\(way) \(url): \(heard.ends)")
                    #expect(heard.text == "")
                }
            }
            #expect(try get(url, through: .proxy(right), trusting: nginx, on: thread).text == "hello world")
        }
    }

    /// The name does not exist, so the side that resolves it reports the error.
    @Test func `the kind of proxy determines which side resolves names`() throws {
        guard Way.microsocks.isThere else { return }
        let nginx = try Nginx()
        let program = try SocksProgram(.microsocks)
        let url = try #require(URL(string: "http://no-such-host.invalid/"))
        func code(_ kind: Proxy.Kind) throws -> URLError.Code? {
            let proxy = try Proxy(kind, host: "127.0.0.1", port: Int(program.port))
            return try get(url, through: .proxy(proxy), trusting: nginx, on: NetworkThread()).error?.code
        }
        #expect(try code(.socks5) == .cannotConnectToHost)
        #expect(try code(.socks5ResolvingHere) == .cannotFindHost)
    }

    @Test func `each request uses its own proxy`() throws {
        let nginx = try Nginx()
        let proxies = try (0..<2).map { _ in try ConnectProxy(.tunnels(to: nginx.securePort)) }
        defer { for proxy in proxies { proxy.stop() } }
        let thread = NetworkThread()
        let url = nginx.secureURL("small")
        for round in 1...2 {
            for proxy in proxies {
                let selection = ProxySelection.proxy(try Proxy(proxy.address))
                #expect(try get(url, through: selection, trusting: nginx, on: thread).text == "hello world")
                #expect(try get(url, through: .none, trusting: nginx, on: thread).text == "hello world")
                let excepting = ProxySelection.proxy(try Proxy(proxy.address), except: ["localhost"])
                #expect(try get(url, through: excepting, trusting: nginx, on: thread).text == "hello world")
            }
            // In the second round, the tunnels exist, and each request finds the right one.
            #expect(proxies.map(\.heads.count) == [1, 1], "\(round)")
        }
    }
}
