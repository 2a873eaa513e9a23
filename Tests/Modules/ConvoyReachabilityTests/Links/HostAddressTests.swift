import Foundation
import Testing

@testable import ConvoyReachability

/// Addresses parsed from text.
@Suite struct HostAddressTests {
    @Test(arguments: ["192.0.2.1", "2001:db8::1", "[2001:db8::1]", "fe80::1%eth0", "[fe80::1%2]", "::", "::ffff:192.0.2.1"])
    func `an address is recognized in each of its spellings`(_ text: String) {
        #expect(HostAddress(text) != nil)
    }

    @Test(arguments: [
        "", "example.com", "127.1", "0x7f.0.0.1", "[192.0.2.1]", "192.0.2.1%eth0", "fe80::1%", "fe80::1%eth0\0", "[::1",
        "::1]", "%eth0", "1:2", "192.0.2.1 ",
    ])
    func `any other text is not an address`(_ text: String) {
        #expect(HostAddress(text) == nil)
    }

    @Test func `loopback is detected in all its forms`() throws {
        for text in ["127.0.0.1", "127.255.0.9", "::1", "[::1]", "::ffff:127.0.0.1"] {
            #expect(try #require(HostAddress(text)).isLoopback, "\(text)")
        }
        for text in ["128.0.0.1", "::", "::2", "1::1", "::ffff:192.0.2.1"] {
            #expect(try !#require(HostAddress(text)).isLoopback, "\(text)")
        }
    }

    @Test func `a zone is the name or number of a link, which need not exist`() throws {
        #expect(try #require(HostAddress("fe80::1%lo")).zoneIndex == 1)
        #expect(try #require(HostAddress("fe80::1%17")).zoneIndex == 17)
        #expect(try #require(HostAddress("fe80::1%nolink9")).zoneIndex == nil)
        #expect(try #require(HostAddress("fe80::1")).zoneIndex == 0)
    }
}
