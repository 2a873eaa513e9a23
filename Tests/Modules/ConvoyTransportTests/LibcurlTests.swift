import CCurl
import ConvoyTransport
import Foundation
import Testing

/// The libcurl loaded by this process, which may differ from the one with which the process was built.
@Suite struct LibcurlTests {
    private static let expected = ProcessInfo.processInfo.environment["CONVOY_EXPECTED_LIBCURL"] ?? ""

    @Test func `the library description contains the versions`() throws {
        let version = String(cString: try #require(convoy_version()).pointee.version)
        #expect(TransportLibraries.text.hasPrefix("libcurl \(version), OpenSSL 3."))
    }

    @Test func `the headers and the loaded library of curl have the expected version`() throws {
        let info = try #require(convoy_version())
        let version = String(cString: info.pointee.version)
        print("libcurl \(version), \(String(cString: curl_version()))")
        #expect(info.pointee.version_num == UInt32(LIBCURL_VERSION_NUM))
        #expect(version.hasPrefix(Self.expected))
        // This file has no size, so Foundation would read only one page of it.
        let file = try #require(FileHandle(forReadingAtPath: "/proc/self/maps"))
        let maps = String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
        let paths = maps.split(separator: "\n").compactMap { $0.firstIndex(of: "/").map($0.suffix(from:)) }
        let loaded = Set(paths.filter { $0.split(separator: "/").last?.hasPrefix("libcurl") == true })
        #expect(loaded.count == 1, "\(loaded), of \(Set(paths).count) files")
        for path in loaded { print("loaded from \(path)") }
    }
}
