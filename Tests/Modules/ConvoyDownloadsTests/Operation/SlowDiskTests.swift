import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import Testing

/// Tests that slow file system calls run on worker threads while the network thread serves other transfers.
@Suite struct SlowDiskTests {
    @Test func `worker threads reserve space and write to a slow disk`() async throws {
        let size = 4 << 20
        let fixture = try DownloadFixture()
        fixture.server.servePattern(count: size, at: "/file", etag: "\"1\"")
        // Whether each call was made on the network thread.
        let allocations = Locked<[Bool]>([])
        let writes = Locked<[Bool]>([])
        let download = fixture.download { download in
            var calls = download.fileCalls
            let (allocate, write) = (calls.allocate, calls.writeAt)
            calls.allocate = { descriptor, length in
                allocations.withLock { $0.append(NetworkThread.isCurrent) }
                return allocate(descriptor, length)
            }
            calls.writeAt = { descriptor, bytes, offset in
                let count = writes.withLock { writes in
                    writes.append(NetworkThread.isCurrent)
                    return writes.count
                }
                // Make the call as slow as on a busy disk.
                if count == 3 { usleep(useconds_t(FileSink.longestWrite / 1_000) + 1_000) }
                return write(descriptor, bytes, offset)
            }
            download.fileCalls = calls
        }
        await fixture.run(download)
        #expect(download.error == nil)
        #expect(fixture.contents() == PatternBytes.data(count: size))
        // Not every file system can reserve space.
        #expect(!allocations.withLock { $0 }.contains(true))
        let threads = writes.withLock { $0 }
        #expect(threads.count > 3 && threads.first == false && !threads.dropFirst(3).contains(true), "\(threads)")
    }
}
