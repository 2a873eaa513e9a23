import ConvoySecurity
import Foundation
import FoundationNetworking
import Testing

/// The credentials that must and must not be used for a protection space.
@Suite struct CredentialStoreTests {
    private static func space(
        _ realm: String? = "r", host: String = "example.com", port: Int = 443, scheme: String = "https",
        method: AuthenticationMethod = .basic, isProxy: Bool = false
    ) -> ProtectionSpace {
        ProtectionSpace(host: host, port: port, scheme: scheme, realm: realm, method: method, isProxy: isProxy)
    }

    private static func credential(
        _ user: String, _ password: String = "secret", _ persistence: URLCredential.Persistence = .forSession
    ) -> URLCredential {
        URLCredential(user: user, password: password, persistence: persistence)
    }

    private static func url(_ text: String) throws -> URL { try #require(URL(string: text)) }

    @Test func `a credential is found only by an equal protection space`() {
        let store = CredentialStore()
        store.set(Self.credential("ada"), for: Self.space())
        #expect(store.credential(for: Self.space(host: "EXAMPLE.com."))?.user == "ada")
        let others = [
            Self.space("other"), Self.space(nil), Self.space(host: "www.example.com"), Self.space(port: 444),
            Self.space(scheme: "http"), Self.space(method: .digest), Self.space(isProxy: true),
        ]
        for other in others {
            #expect(store.credential(for: other) == nil && store.credentials(for: other).isEmpty, "\(other)")
        }
    }

    @Test func `a credential without a realm applies to all realms without their own credential`() {
        let store = CredentialStore()
        store.set(Self.credential("all"), for: Self.space(nil))
        #expect(store.credential(for: Self.space("r"))?.user == "all")
        #expect(store.credential(for: Self.space("r", method: .digest)) == nil)
        store.set(Self.credential("one"), for: Self.space("r"))
        #expect(store.credential(for: Self.space("r"))?.user == "one")
        #expect(store.credential(for: Self.space("s"))?.user == "all")
        #expect(store.credentials(for: Self.space("r")).keys.sorted() == ["all", "one"])
    }

    @Test func `the default credential is tried first, or else the one stored last`() {
        let store = CredentialStore()
        store.set(Self.credential("a"), for: Self.space())
        store.set(Self.credential("b"), for: Self.space())
        #expect(store.credential(for: Self.space())?.user == "b")
        store.setDefaultCredential(Self.credential("c"), for: Self.space())
        store.set(Self.credential("d"), for: Self.space())
        #expect(store.credential(for: Self.space())?.user == "c")
        #expect(store.credential(for: Self.space(), user: "a")?.user == "a")
        #expect(store.credential(for: Self.space(), user: "x") == nil)
        #expect(store.credentials(for: Self.space()).keys.sorted() == ["a", "b", "c", "d"])
        store.remove(Self.credential("c"), for: Self.space())
        #expect(store.credential(for: Self.space())?.user == "d")
    }

    @Test func `a user has one credential per protection space`() {
        let store = CredentialStore()
        store.set(Self.credential("a", "old"), for: Self.space())
        store.set(Self.credential("a", "new"), for: Self.space())
        #expect(store.credentials(for: Self.space()).mapValues(\.password) == ["a": "new"])
        store.remove(Self.credential("a"), for: Self.space())
        store.remove(Self.credential("a"), for: Self.space("never set"))
        #expect(store.credential(for: Self.space()) == nil)
    }

    @Test func `a credential with the persistence none is not stored`() throws {
        let store = CredentialStore()
        store.set(Self.credential("a", "p", .none), for: Self.space())
        store.setDefaultCredential(Self.credential("a", "p", .none), for: Self.space())
        try store.set(Self.credential("a", "p", .none), forOriginOf: Self.url("https://example.com"))
        #expect(store.credential(for: Self.space()) == nil)
        store.set(Self.credential("a", "p", .permanent), for: Self.space())
        store.set(Self.credential("a", "q", .none), for: Self.space())
        #expect(store.credential(for: Self.space())?.password == "p")
    }

    @Test func `a credential for an origin applies to all its realms and methods, but not to a proxy`() throws {
        let store = CredentialStore()
        #expect(try store.set(Self.credential("a"), forOriginOf: Self.url("https://Example.com/path")))
        for method in AuthenticationMethod.allCases {
            #expect(store.credential(for: Self.space("x", method: method))?.user == "a")
            #expect(store.credential(for: Self.space(nil, method: method))?.user == "a")
            #expect(store.credential(for: Self.space("x", method: method, isProxy: true)) == nil)
            #expect(store.credential(for: Self.space("x", scheme: "http", method: method)) == nil)
            #expect(store.credential(for: Self.space("x", port: 80, method: method)) == nil)
        }
        store.set(Self.credential("b"), for: Self.space())
        #expect(store.credential(for: Self.space())?.user == "b")
        #expect(store.credential(for: Self.space(), user: "a")?.user == "a")
        #expect(try !store.set(Self.credential("a"), forOriginOf: Self.url("mailto:a@example.com")))
        try store.removeCredentials(forOriginOf: Self.url("https://example.com"))
        #expect(store.credentials(for: Self.space()).keys.sorted() == ["b"])
    }

    @Test func `netrc is consulted last, for servers and for methods with a password`() throws {
        let store = CredentialStore()
        store.netrc = try Netrc(text: "machine example.com login ada password p\ndefault login guest password g")
        for method in AuthenticationMethod.allCases {
            let isAsked = [.basic, .digest, .ntlm].contains(method)
            #expect(store.credential(for: Self.space(method: method))?.user == (isAsked ? "ada" : nil))
            #expect(store.credential(for: Self.space(method: method, isProxy: true)) == nil)
            #expect(store.credential(for: Self.space(host: "elsewhere", method: method))?.user == (isAsked ? "guest" : nil))
        }
        #expect(store.credential(for: Self.space(), user: "bob") == nil)
        store.set(Self.credential("bob"), for: Self.space())
        #expect(store.credential(for: Self.space())?.user == "bob")
        #expect(store.credential(for: Self.space(), user: "ada")?.password == "p")
        #expect(store.credentials(for: Self.space()).keys.sorted() == ["ada", "bob"])
        store.removeAll()
        #expect(store.credential(for: Self.space())?.user == "ada")
        store.netrc = nil
        #expect(store.credential(for: Self.space()) == nil)
    }

    @Test func `a description contains no password`() throws {
        let store = CredentialStore()
        store.netrc = try Netrc(text: "machine h login ada password secret")
        store.set(Self.credential("ada"), for: Self.space())
        try store.set(Self.credential("ada"), forOriginOf: Self.url("https://example.com"))
        var dumped = ""
        dump(store, to: &dumped)
        dump(store.netrc, to: &dumped)
        for text in [
            "\(store)", String(reflecting: store), "\(store.netrc as Any)", String(reflecting: store.netrc), dumped,
        ] {
            #expect(!text.contains("secret"))
        }
        #expect("\(store)" == "CredentialStore with 1 protection spaces, 1 origins, netrc with 1 entry")
    }

    @Test func `a store can be used from many threads`() async {
        let store = CredentialStore()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    for round in 0..<200 {
                        let space = Self.space("\(round % 4)")
                        store.set(Self.credential("\(number)"), for: space)
                        _ = store.credentials(for: space)
                        if round % 2 == 0 { store.remove(Self.credential("\(number)"), for: space) }
                    }
                }
            }
        }
        #expect(store.credentials(for: Self.space("1")).count == 8 && store.credentials(for: Self.space("0")).isEmpty)
    }
}
