import Foundation
import Testing

/// Checks that all decisions about a URL are based on its `Target`. Only the sources that parse URLs may examine their
/// text.
struct TargetUseTests {
    /// The sources that read schemes and hosts, and the expressions they need.
    private static let readers: [String: Set<String>] = [
        "ConvoySupport/URLs/Target.swift": ["\"http\"", "\"https\".utf8", "\"http\".utf8", "\"https://\".utf8.count"],
        "ConvoySupport/URLs/URLReference.swift": ["\"https\".utf8", "\"http\".utf8"],
        // A proxy has its own schemes.
        "ConvoyTransport/Configuration/Proxy.swift": ["CURLUPART_SCHEME", "CURLUPART_HOST"],
        // URLs typed by a user, possibly without a scheme.
        "ConvoyTool/Requests/DownloadURL.swift": ["[\"http\", \"https\"]"],
        // Images in files and in `data:` URLs have no host.
        "ConvoyImage/Downloader/LocalImage.swift": ["scheme == \""],
        // The type of a link in Metalink 3, which is not a URL.
        "ConvoyDownloads/Mirrors/MetalinkBuilder.swift": ["[\"http\", \"https\"]"],
    ]

    private static let patterns = [
        #""https?:""#, #""https?:/?/?"\.utf8"#, #"hasPrefix\("https?"#, #"starts\(with: "https?"#,
        #"[sS]cheme\??(\.lowercased\(\)|\.uppercased\(\))? *(==|!=|~=) *""#, #""https?" *(==|!=) *"#, #""https?"\.utf8"#,
        #"\["https?", "https?"\]"#, #"memcmp\([^)]*"https?"#, #"CURLUPART_(SCHEME|HOST)\b"#, #"\burl\??\.(host|port)\b"#,
        #"(==|!=) *[A-Za-z.]*(address|url|URL)\.absoluteString"#,
    ]

    @Test func `only code that parses URLs compares them as strings`() throws {
        let here = URL(fileURLWithPath: #filePath)
        let sources = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Sources")
        let files = try #require(FileManager.default.enumerator(atPath: sources.path)).compactMap { $0 as? String }
            .filter { $0.hasSuffix(".swift") && !$0.hasPrefix("ConvoyTestServer/") && !$0.hasPrefix("Examples/") }
        #expect(files.count > 300)
        let expressions = try Self.patterns.map { try NSRegularExpression(pattern: $0) }
        var readers: Set<String> = []
        for file in files {
            let text = try String(contentsOf: sources.appendingPathComponent(file), encoding: .utf8)
            for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
                let code = line.trimmingCharacters(in: .whitespaces)
                guard !code.hasPrefix("//") else { continue }
                let range = NSRange(code.startIndex..., in: code)
                guard expressions.contains(where: { $0.firstMatch(in: code, range: range) != nil }) else { continue }
                let isReader = Self.readers[file]?.contains { code.contains($0) } == true
                #expect(isReader, "\(file):\(number + 1): \(code)")
                if isReader { readers.insert(file) }
            }
        }
        // The list must not contain unused entries.
        #expect(readers == Set(Self.readers.keys))
    }
}
