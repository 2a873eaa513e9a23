import CCurl
import Foundation
import Testing

/// The library that this process has loaded, which need not be the one that it was built with.
@Suite struct LibcurlTests {
    private static let expected = ProcessInfo.processInfo.environment["CONVOY_EXPECTED_LIBCURL"] ?? ""

    @Test func `the headers are those of the library that is loaded, which is the one that is asked for`() throws {
        let info = try #require(convoy_version())
        let version = String(cString: info.pointee.version)
        print("libcurl \(version), \(String(cString: curl_version()))")
        #expect(info.pointee.version_num == UInt32(LIBCURL_VERSION_NUM))
        #expect(version.hasPrefix(Self.expected))
        let maps = try String(contentsOfFile: "/proc/self/maps", encoding: .utf8)
        let loaded = Set(maps.split(separator: "\n").filter { $0.contains("/libcurl.so") }.compactMap { $0.split(separator: " ").last })
        #expect(loaded.count == 1, "\(loaded)")
        for path in loaded { print("loaded from \(path)") }
    }
}
