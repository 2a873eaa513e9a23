import Convoy
import ConvoySupport
import Foundation

/// Functions that derive safe file names from URLs, which are untrusted.
enum FileNames {
    /// The maximum length of a name, in bytes. A number and ".part" can be added without exceeding 255 bytes.
    static let maximumLength = 240

    /// Returns the name of a manifest output while it is being written.
    static func partial(of name: String) -> String { name + ".part" }

    /// Returns the names of the files that may be written beside a file.
    static func companions(of name: String) -> [String] { companionSuffixes.map { name + $0 } }

    static let companionSuffixes = [".part"] + PartialPaths.suffixes
    static let longestCompanionSuffix = companionSuffixes.map(\.utf8.count).max() ?? 0

    /// Returns the last path component of a URL as a file name, or "index.html" if the path ends in a slash.
    static func name(for url: URL) -> String {
        if let name = plainName(of: url.absoluteString) { return name }
        let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath ?? ""
        let last = path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        return last.isEmpty ? "index.html" : sanitised(decoded(last))
    }

    /// Returns the name for a URL whose last path component can be used as it is, or nil for any other URL.
    private static func plainName(of text: String) -> String? {
        var text = text
        return text.withUTF8 { bytes in
            guard let authority = SimpleURLAuthority(bytes) else { return nil }
            let end = bytes[authority.end...].firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
            let path = bytes[authority.end..<(end ?? bytes.endIndex)]
            let start = path.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? path.startIndex
            let name = path[start...]
            guard let first = name.first, isPlain(first), name.count <= maximumLength, name.allSatisfy(isPlainInside) else {
                return nil
            }
            let text = String(decoding: name, as: UTF8.self)
            guard let dot = name.lastIndex(of: UInt8(ascii: ".")) else { return text }
            let isReserved = PartialPaths.suffixes.contains { ASCII.equalIgnoringCase($0.utf8, name[dot...]) }
            return isReserved ? nil : text
        }
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    private static func isPlainInside(_ byte: UInt8) -> Bool {
        isPlain(byte) || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "+")
    }

    /// Returns a name that stays in its directory, has no special characters for shells or terminals, and is at most
    /// ``maximumLength`` bytes long.
    ///
    /// The function processes Unicode scalars, because a dot with a combining accent is one `Character` but still hides
    /// the file.
    static func sanitised(_ name: String) -> String {
        let safe = name.unicodeScalars.map { $0 == "/" || Printable.isObeyed($0) ? "_" : $0 }
        let short = FileName.shortened(cleaned(safe[...]), to: maximumLength)
        return cleaned(Array(short.unicodeScalars)[...])
    }

    /// Removes whitespace at both ends, and makes the first character visible and without special meaning.
    private static func cleaned(_ name: ArraySlice<Unicode.Scalar>) -> String {
        var name = name.drop { $0.properties.isWhitespace }
        while name.last?.properties.isWhitespace == true { name.removeLast() }
        if let dot = FileName.reservedDot(in: name) { name[dot] = "_" }
        guard let first = name.first else { return "_" }
        // A leading dot would hide the file or name a directory; a hyphen or a tilde is special in a shell.
        if ".-~".unicodeScalars.contains(first) {
            name.removeFirst()
        } else if !FileName.isFloating(first) {
            return text(name)
        }
        return "_" + text(name)
    }

    private static func decoded(_ component: Substring) -> String {
        if let text = component.removingPercentEncoding { return text }
        // The conversion replaces invalid UTF-8.
        return String(decoding: PercentEncoding.decoded(Array(component.utf8)[...]), as: UTF8.self)
    }

    private static func text(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars)
        return String(view)
    }
}

/// An allocator of unique names for the files of one run, including their partial files.
struct FileNameAllocator {
    private var taken: Set<String> = []
    /// Whether a taken name could be that of a companion of another file.
    private var hasCompanionNames = false
    /// The last number that was tried for each name that was already taken. All lower numbers are taken.
    private var numbers: [String: Int] = [:]

    /// Returns the name itself if it is free, or else "name.1.ext", "name.2.ext" and so on.
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

    /// Reserves a name that must not be changed.
    mutating func keep(_ name: String) {
        taken.insert(name)
        let isCompanion = FileNames.companionSuffixes.contains { suffix in
            name.utf8.suffix(suffix.utf8.count).elementsEqual(suffix.utf8)
        }
        if isCompanion { hasCompanionNames = true }
    }

    /// Returns whether neither the file nor its partial files would have a name that is already taken.
    func isFree(_ name: String) -> Bool {
        if taken.contains(name) { return false }
        for suffix in FileNames.companionSuffixes {
            if hasCompanionNames, taken.contains(name + suffix) { return false }
            guard name.hasSuffix(suffix) else { continue }
            if taken.contains(String(name.dropLast(suffix.count))) { return false }
        }
        return true
    }
}

/// An allocator of unique names for files that servers name. ``FileNameAllocator`` is the counterpart for names taken
/// from URLs.
final class ServerNames: Sendable {
    private let names = Locked<[String: FileNameAllocator]>([:])

    /// Reserves the path of a file that is not named by a server.
    func keep(_ path: String) {
        let directory = Directories.resolved(PathText.directory(of: path))
        names.withLock { $0[directory, default: FileNameAllocator()].keep(PathText.name(of: path)) }
    }

    /// Returns a unique path for a file. Called on the network thread, for an existing directory.
    ///
    /// - Returns: The path, and the preferred name if another file of the run already has that name.
    func place(_ wanted: URL, in directory: String) -> (place: URL, wanted: String?) {
        let name = wanted.lastPathComponent
        let free = names.withLock { $0[directory, default: FileNameAllocator()].take(name) }
        guard free != name else { return (wanted, nil) }
        return (wanted.deletingLastPathComponent().appendingPathComponent(free, isDirectory: false), name)
    }
}
