import Convoy
import ConvoySupport
import Foundation

/// Makes safe file names from URLs, which are untrusted.
enum FileNames {
    /// Short enough that the name fits 255 bytes with a number and ".part" added.
    static let maximumLength = 240

    /// The name of an output of a manifest while it is being written.
    static func partial(of name: String) -> String { name + ".part" }

    /// The names that a file may have beside its own, and those of the files beside it.
    static func companions(of name: String) -> [String] { companionSuffixes.map { name + $0 } }

    static let companionSuffixes = [".part"] + PartialPaths.suffixes

    /// The last component of the URL's path as a file name; "index.html" if the path ends in a slash.
    static func name(for url: URL) -> String {
        let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath ?? ""
        let last = path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        return last.isEmpty ? "index.html" : sanitised(decoded(last))
    }

    /// A name that cannot leave its directory and is not special to shells or terminals. Not longer than
    /// ``maximumLength`` bytes.
    ///
    /// It works on Unicode scalars: a dot with a combining accent is one `Character`, but still hides the file.
    static func sanitised(_ name: String) -> String {
        let safe = name.unicodeScalars.map { $0 == "/" || Printable.isObeyed($0) ? "_" : $0 }
        let short = FileName.shortened(cleaned(safe[...]), to: maximumLength)
        return cleaned(Array(short.unicodeScalars)[...])
    }

    /// The name without whitespace at its ends, and with a visible first character without special meaning.
    private static func cleaned(_ name: ArraySlice<Unicode.Scalar>) -> String {
        var name = name.drop { $0.properties.isWhitespace }
        while name.last?.properties.isWhitespace == true { name.removeLast() }
        if let dot = FileName.reservedDot(in: name) { name[dot] = "_" }
        guard let first = name.first else { return "_" }
        // A dot would hide the file, or name a directory; a hyphen or a tilde is special in a shell.
        if ".-~".unicodeScalars.contains(first) {
            name.removeFirst()
        } else if !FileName.isFloating(first) {
            return text(name)
        }
        return "_" + text(name)
    }

    private static func decoded(_ component: Substring) -> String {
        if let text = component.removingPercentEncoding { return text }
        // Bytes that are not UTF-8 are replaced.
        return String(decoding: PercentEncoding.decoded(Array(component.utf8)[...]), as: UTF8.self)
    }

    private static func text(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars)
        return String(view)
    }
}

/// Assigns unique names to the files of one run of the program, including its partial files.
struct FileNameAllocator {
    private var taken: Set<String> = []
    /// For each name that was taken before, the last number that was tried. All lower ones are taken.
    private var numbers: [String: Int] = [:]

    /// The name itself if it is free, or else "name.1.ext", "name.2.ext" and so on.
    mutating func take(_ name: String) -> String {
        if isFree(name) {
            keep(name)
            return name
        }
        let (stem, suffix) = FileName.parts(of: name)
        var number = numbers[name] ?? 0, candidate: String
        repeat {
            number += 1
            candidate = "\(stem).\(number)\(suffix)"
        } while !isFree(candidate)
        numbers[name] = number
        keep(candidate)
        return candidate
    }

    /// Takes a name that is not to be changed.
    mutating func keep(_ name: String) { taken.insert(name) }

    /// Whether neither a file nor its partial files would have the name of another's.
    func isFree(_ name: String) -> Bool {
        if taken.contains(name) { return false }
        for suffix in FileNames.companionSuffixes {
            if taken.contains(name + suffix) { return false }
            guard name.hasSuffix(suffix) else { continue }
            if taken.contains(String(name.dropLast(suffix.count))) { return false }
        }
        return true
    }
}

/// Gives the files whose names servers tell different names, as ``FileNameAllocator`` does for those of URLs.
final class ServerNames: Sendable {
    private let names = Locked<[String: FileNameAllocator]>([:])

    /// Takes the place of a file that has its name from elsewhere.
    func keep(_ path: String) {
        let directory = Directories.resolved(PathText.directory(of: path))
        names.withLock { $0[directory, default: FileNameAllocator()].keep(PathText.name(of: path)) }
    }

    /// The place of a file, out of the way of others of the run. Called on the network thread, with a file in a directory
    /// that is there.
    ///
    /// - Returns: the place, and the name that it should have had, if another file of the run has that.
    func place(_ wanted: URL, in directory: String) -> (place: URL, wanted: String?) {
        let name = wanted.lastPathComponent
        let free = names.withLock { $0[directory, default: FileNameAllocator()].take(name) }
        guard free != name else { return (wanted, nil) }
        return (wanted.deletingLastPathComponent().appendingPathComponent(free, isDirectory: false), name)
    }
}
