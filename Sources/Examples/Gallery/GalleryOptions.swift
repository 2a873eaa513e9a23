#if GTK
import Foundation

/// The command-line options.
struct GalleryOptions {
    struct Mistake: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    static let usage = """
        usage: Gallery URL [--downloads DIRECTORY] [--size WIDTHxHEIGHT] [--jobs N] [--dark | --light]

        URL is a page with links to pictures, such as a folder of a web server, or a JSON feed.

        Enter opens a picture, the arrow keys show the next or previous one, Escape returns to the grid, and Control-S
        downloads the picture. Control-D shows the downloads, Control-R reloads the list, Control-T toggles dark mode,
        and Control-Q quits.
        """

    var url: URL
    var downloads = URL(fileURLWithPath: NSHomeDirectory()).appendingPathComponent("Downloads/Gallery")
    var (width, height) = (1100, 760)
    var jobs = 8
    var isDark: Bool?

    /// Parses the arguments. Returns nil for `--help`.
    init?(_ arguments: some Sequence<String>) throws {
        var address: String?
        var rest = Array(arguments)[...]
        func value(of option: String) throws -> String {
            guard let value = rest.popFirst() else { throw Mistake("\(option) needs a value.\n\n\(Self.usage)") }
            return value
        }
        var found: (directory: String?, size: String?, jobs: String?) = (nil, nil, nil)
        while let argument = rest.popFirst() {
            switch argument {
            case "-h", "--help": return nil
            case "--dark": isDark = true
            case "--light": isDark = false
            case "--downloads": found.directory = try value(of: argument)
            case "--size": found.size = try value(of: argument)
            case "--jobs": found.jobs = try value(of: argument)
            case _ where argument.hasPrefix("-"): throw Mistake("Unknown option \(argument).\n\n\(Self.usage)")
            case _ where address != nil: throw Mistake("Only one URL can be given, not also \(argument).\n\n\(Self.usage)")
            default: address = argument
            }
        }
        guard let address else { throw Mistake("The URL is missing.\n\n\(Self.usage)") }
        guard let url = URL(string: address), address.lowercased().hasPrefix("http"), url.host ?? "" != "" else {
            throw Mistake("Invalid URL \(address): it must begin with http:// or https://.")
        }
        self.url = url
        if let directory = found.directory { downloads = URL(fileURLWithPath: directory, isDirectory: true) }
        if let size = found.size {
            let parts = size.split(separator: "x").compactMap { Int($0) }
            guard parts.count == 2, parts.allSatisfy((100...10_000).contains) else {
                throw Mistake("--size takes two numbers from 100 to 10000, such as 1100x760, not \(size).")
            }
            width = parts[0]
            height = parts[1]
        }
        if let text = found.jobs {
            guard let jobs = Int(text), (1...16).contains(jobs) else {
                throw Mistake("--jobs takes a number from 1 to 16, not \(text).")
            }
            self.jobs = jobs
        }
    }
}

/// The pictures that a page links to or that a feed lists.
enum Listing {
    private static let extensions: Set = ["jpg", "jpeg", "png", "gif", "webp", "avif", "bmp", "tif", "tiff"]
    private static let keys = ["image", "url", "src", "href", "content_url"]
    private static let lists = ["items", "images", "photos", "pictures", "results", "attachments"]

    /// Returns each URL once, in the order of the list.
    static func pictures(in data: Data, of type: String?, at base: URL) throws -> [URL] {
        let first = data.first { !" \n\r\t".utf8.contains($0) }
        let isJSON = type?.contains("json") == true || first.map { "[{".utf8.contains($0) } == true
        let texts = isJSON ? strings(in: try JSONSerialization.jsonObject(with: data)) : links(in: data)
        var seen: Set<URL> = []
        return texts.compactMap { text in
            guard let url = URL(string: text, relativeTo: base)?.absoluteURL, url.scheme == "http" || url.scheme == "https",
                isJSON || extensions.contains(url.pathExtension.lowercased()), seen.insert(url).inserted
            else { return nil }
            return url
        }
    }

    private static func strings(in value: Any) -> [String] {
        if let text = value as? String { return [text] }
        if let list = value as? [Any] { return list.flatMap { strings(in: $0) } }
        guard let object = value as? [String: Any] else { return [] }
        let nested = lists.compactMap { object[$0] }
        if !nested.isEmpty { return nested.flatMap { strings(in: $0) } }
        return keys.lazy.compactMap { object[$0] as? String }.first.map { [$0] } ?? []
    }

    private static func links(in data: Data) -> [String] {
        let attribute = /(?i)<(?:a|img)\b[^>]*?\b(?:href|src)\s*=\s*(?:"([^"]*)"|'([^']*)')/
        return String(decoding: data, as: UTF8.self).matches(of: attribute).compactMap {
            ($0.1 ?? $0.2)?.replacingOccurrences(of: "&amp;", with: "&")
        }
    }
}
#endif
