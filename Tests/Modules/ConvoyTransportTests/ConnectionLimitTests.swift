import Testing

@testable import ConvoyTransport

/// The number of connections that libcurl keeps.
@Suite struct ConnectionLimitTests {
    @Test(arguments: [
        (0, 256, 64), (0, 1024, 256), (0, 65_536, 1024), (10, 65_536, 1024), (600, 1024, 768), (4096, 65_536, 8192),
    ])
    func `the limit follows the running transfers and spares descriptors`(running: Int, descriptors: Int, limit: Int) {
        #expect(MultiHandle.connectionLimit(running: running, descriptors: descriptors) == limit)
    }

    @Test func `the limit covers all running transfers if enough descriptors are available`() {
        for running in stride(from: 0, through: 100_000, by: 777) {
            let limit = MultiHandle.connectionLimit(running: running, descriptors: 1 << 20)
            #expect(limit >= running && limit <= (1 << 20) / 4 * 3)
        }
    }
}
