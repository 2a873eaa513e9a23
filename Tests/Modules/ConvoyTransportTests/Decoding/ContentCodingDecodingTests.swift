import Testing

@testable import ConvoyTransport

/// The parsing of `Content-Encoding` (RFC 9110, sections 5.3, 5.6.1 and 8.4.1).
@Suite struct ContentCodingDecodingTests {
    @Test(
        arguments: [
            ([], []),
            ([""], []),
            (["gzip"], [.gzip]),
            (["x-gzip"], [.gzip]),
            (["deflate"], [.deflate]),
            (["br"], [.brotli]),
            (["zstd"], [.zstd]),
            (["identity"], []),
            (["GZip"], [.gzip]),
            (["IDENTITY"], []),
            (["gzip", "identity"], [.gzip]),
            (["identity, gzip"], [.gzip]),
            (["gzip, br"], [.gzip, .brotli]),
            (["gzip", "br"], [.gzip, .brotli]),
            ([" \tgzip\t ,\tbr \r\n"], [.gzip, .brotli]),
            (["gzip,br", "zstd"], [.gzip, .brotli, .zstd]),
            ([",, gzip ,,", " , ", "deflate,"], [.gzip, .deflate]),
            (["gzip, gzip"], [.gzip, .gzip]),
            (["compress"], [.unknown("compress")]),
            (["AWS-Chunked, gzip"], [.unknown("aws-chunked"), .gzip]),
            (["gzip;q=1"], [.unknown("gzip;q=1")]),
            (["gzip br"], [.unknown("gzip br")]),
            (["\"gzip\""], [.unknown("\"gzip\"")]),
            (["gzïp"], [.unknown("gzïp")]),
        ] as [([String], [ContentCoding])])
    func `the codings of all lines are read in the order of their application`(
        values: [String], expected: [ContentCoding]
    ) {
        #expect(ContentCoding.codings(in: values) == expected)
        #expect(values.flatMap { ContentCoding.codings(in: Array($0.utf8)[...]) } == expected)
    }

    @Test func `a coding name that is not text is unknown`() {
        let codings = ContentCoding.codings(in: [0xFF, 0x00, 0x2C, 0x67, 0x7A, 0x69, 0x70])
        #expect(codings.count == 2 && codings.last == .gzip && codings.first?.isKnown == false)
    }

    @Test func `a coding is created from its name and returns it`() {
        for coding in [ContentCoding.gzip, .deflate, .brotli, .zstd, .unknown("pack200-gzip")] {
            #expect(ContentCoding(name: coding.description) == coding)
        }
    }
}
