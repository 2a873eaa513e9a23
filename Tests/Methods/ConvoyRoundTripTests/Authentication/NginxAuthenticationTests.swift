import ConvoyOperations
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Basic authentication, verified by nginx.
@Suite(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)")) struct NginxAuthenticationTests {
    @Test(arguments: [false, true])
    func `nginx accepts the right password, over HTTP/1.1 and HTTP/2`(isSecure: Bool) async throws {
        let nginx = try Nginx()
        _ = try nginx.add(Data("private".utf8), as: "file.txt")
        let url = isSecure ? nginx.secureURL("private/file.txt") : nginx.url("private/file.txt")
        let manager = Protected.manager()
        manager.connectionConfiguration.certificateAuthorities = nginx.certificateAuthority
        for _ in 0..<2 { #expect(try await manager.get(url, as: String.self) == "private") }
        for refused in [Protected.wrong, nil] {
            manager.credential = refused
            #expect(await manager.status(url) == 401)
        }
    }
}
