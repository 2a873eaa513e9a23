import Foundation
import Testing

/// What is decided about a URL is decided by its `Target`: no source but those that read URLs looks at their text.
struct TargetUseTests {
    /// What reads schemes and hosts, and what it needs to.
    private static let readers: [String: Set<String>] = [
        "ConvoySupport/URLs/Target.swift": ["\"http\"", "\"https\".utf8", "\"http\".utf8", "\"https://\".utf8.count"],
        "ConvoySupport/URLs/URLReference.swift": ["\"https\".utf8", "\"http\".utf8"],
        // A proxy has schemes of its own.
        "ConvoyTransport/Routes/Proxy.swift": ["CURLUPART_SCHEME", "CURLUPART_HOST"],
        // What a user types, perhaps without a scheme.
        "ConvoyTool/Requests/Headers.swift": ["[\"http\", \"https\"]"],
        // The type of a link in Metalink 3, which is no URL.
        "ConvoyDownloads/Mirrors/MetalinkBuilder.swift": ["[\"http\", \"https\"]"],
    ]

    private static let patterns = [
        #""https?:""#, #""https?:/?/?"\.utf8"#, #"hasPrefix\("https?"#, #"starts\(with: "https?"#,
        #"[sS]cheme\??(\.lowercased\(\)|\.uppercased\(\))? *(==|!=|~=) *""#, #""https?" *(==|!=) *"#, #""https?"\.utf8"#,
        #"\["https?", "https?"\]"#, #"memcmp\([^)]*"https?"#, #"CURLUPART_(SCHEME|HOST)\b"#, #"\burl\??\.(host|port)\b"#,
        #"(==|!=) *[A-Za-z.]*(address|url|URL)\.absoluteString"#,
    ]

    @Test func `only what reads URLs compares their texts`() throws {
        let here = URL(fileURLWithPath: #filePath)
        let sources = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Sources")
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
        // So that the list is no longer than it must be.
        #expect(readers == Set(Self.readers.keys))
    }
}
