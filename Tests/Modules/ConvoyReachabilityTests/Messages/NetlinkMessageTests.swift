import CEpoll
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyReachability

/// Parsing of netlink messages.
@Suite struct NetlinkMessageTests {
    private func route(kind: Int, source: String?, link: UInt32 = 2) throws -> NetlinkMessage {
        var structure = [UInt8](repeating: 0, count: MemoryLayout<rtmsg>.size)
        structure[7] = UInt8(kind)
        var attributes = [(type: Int(RTA_OIF.rawValue), value: NetlinkMessage.bytes(of: link))]
        if let source { attributes.append((Int(RTA_PREFSRC.rawValue), try #require(HostAddress(source)).bytes)) }
        let bytes = NetlinkMessage.request(
            type: Int(RTM_NEWROUTE), sequence: 3, structure: structure, attributes: attributes)
        return try #require(NetlinkMessage.all(in: bytes[...]).first)
    }

    @Test func `a message survives a round trip`() throws {
        let bytes =
            NetlinkMessage.request(
                type: 18, sequence: 7, structure: [1, 2, 3, 4, 5], attributes: [(3, Array("eth0\0".utf8))])
            + NetlinkMessage.request(type: 19, sequence: 8)
        let messages = NetlinkMessage.all(in: bytes[...])
        try #require(messages.map(\.type) == [18, 19])
        #expect(messages.map(\.sequence) == [7, 8])
        #expect(messages[0].attributes(after: 5)[3]?.text == "eth0")
        #expect(messages[1].payload.isEmpty)
    }

    @Test func `a message truncated or damaged anywhere is parsed safely`() throws {
        let bytes = NetlinkMessage.request(
            type: Int(RTM_NEWLINK), sequence: 1, structure: [UInt8](repeating: 9, count: MemoryLayout<ifinfomsg>.size),
            attributes: [(Int(IFLA_IFNAME), Array("eth0\0".utf8)), (4, [1, 2, 3, 4])])
        func read(_ bytes: [UInt8]) {
            for message in NetlinkMessage.all(in: bytes[...]) {
                _ = (NetworkLink(message), NetworkPath(message))
            }
        }
        for length in 0...bytes.count { read(Array(bytes[..<length])) }
        var generator = SplitMix64(seed: 4)
        for _ in 0..<5000 {
            var damaged = bytes
            for _ in 0..<3 {
                damaged[Int.random(in: 0..<bytes.count, using: &generator)] = .random(in: .min ... .max, using: &generator)
            }
            read(damaged)
        }
        #expect(NetlinkMessage.all(in: bytes[..<(bytes.count - 1)]).isEmpty)
    }

    @Test func `a blackhole or prohibited route is not a route`() throws {
        for kind in [RTN_BLACKHOLE, RTN_UNREACHABLE, RTN_PROHIBIT, RTN_THROW, RTN_UNSPEC] {
            #expect(try NetworkPath(route(kind: kind, source: "192.0.2.2")) == nil)
        }
        let path = try #require(NetworkPath(route(kind: RTN_UNICAST, source: "192.0.2.2")))
        #expect(!path.isLocal && path.linkIndex == 2)
        #expect(try #require(NetworkPath(route(kind: RTN_LOCAL, source: nil))).isLocal)
    }

    @Test(
        arguments: [
            ("198.41.0.4", "192.0.2.2", true), ("198.41.0.4", nil, false), ("198.41.0.4", "0.0.0.0", false),
            ("2001:db8::1", "2001:db8::2", true), ("2001:db8::1", "fe80::2", false), ("fe80::1", "fe80::2", true),
            ("ff02::1", "fe80::2", true), ("2001:db8::1", nil, false), ("2001:db8::1", "::1", false),
        ] as [(String, String?, Bool)])
    func `a route needs a source address of suitable scope`(
        _ target: String, _ source: String?, _ expected: Bool
    ) throws {
        let path = try #require(NetworkPath(route(kind: RTN_UNICAST, source: source)))
        #expect(path.hasUsableSource(for: try #require(HostAddress(target))) == expected)
    }
}
