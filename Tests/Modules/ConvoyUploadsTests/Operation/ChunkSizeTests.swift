import Testing

@testable import ConvoyUploads

/// The adaptive chunk size, which depends on the duration of the last chunk.
@Suite struct ChunkSizeTests {
    private static let second: UInt64 = 1_000_000_000
    private static let mebibyte: Int64 = 1 << 20

    @Test func `the next chunk has the size that takes one second`() {
        for (nanoseconds, next) in [(Self.second / 2, Self.mebibyte * 20), (Self.second, Self.mebibyte * 10)] {
            #expect(UploadSettings.chunk(after: Self.mebibyte * 10, in: nanoseconds) == next)
        }
    }

    @Test func `the size grows at most eightfold and shrinks at most to a quarter`() {
        #expect(UploadSettings.chunk(after: Self.mebibyte, in: Self.second / 1_000) == Self.mebibyte * 8)
        #expect(UploadSettings.chunk(after: Self.mebibyte, in: 0) == Self.mebibyte * 8)
        #expect(UploadSettings.chunk(after: Self.mebibyte * 64, in: Self.second * 100) == Self.mebibyte * 16)
        #expect(UploadSettings.chunk(after: Self.mebibyte * 64, in: .max) == Self.mebibyte * 16)
    }

    @Test func `the size stays within its limits`() {
        #expect(UploadSettings.chunk(after: Self.mebibyte * 256, in: 1) == Self.mebibyte * 256)
        #expect(UploadSettings.chunk(after: .max, in: 1) == Self.mebibyte * 256)
        #expect(UploadSettings.chunk(after: 1, in: Self.second * 60) == 64 << 10)
    }
}
