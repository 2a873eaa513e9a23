import ConvoyTestSupport
import Foundation

/// The compiler of the toolchain, for code outside the package. It uses the modules with which these tests run.
enum SwiftCompiler {
    /// An error or a warning.
    struct Diagnostic: Hashable, CustomStringConvertible {
        var line: Int
        var text: String
        var description: String { "\(line): \(text)" }
    }

    static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static let isInstalled = (try? ProcessRunner.run("swiftc", ["--version"]))?.status == 0

    /// The cache of compiled modules of C, which is separate from that of the build because that may use other flags.
    private static let cache = Result { try Scratch() }

    /// Returns the compiler's diagnostics for a file, without running it.
    static func diagnostics(of source: String) throws -> [Diagnostic] {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("main.swift")
        try Data(source.utf8).write(to: file)
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let modules = URL(fileURLWithPath: program).deletingLastPathComponent().appendingPathComponent("Modules")
        var arguments = ["-typecheck", file.path, "-swift-version", "6", "-I", modules.path]
        arguments += ["-module-cache-path", try cache.get().url.path]
        let libraries = root.appendingPathComponent("Sources/CLibraries")
        for library in try FileManager.default.contentsOfDirectory(atPath: libraries.path) {
            arguments += ["-Xcc", "-fmodule-map-file=\(libraries.path)/\(library)/module.modulemap"]
        }
        arguments += ["-Xcc", "-I/usr/include/libxml2"]
        let run = try ProcessRunner.run("swiftc", arguments, timeout: 300)
        return run.errorText.split(separator: "\n").compactMap { line in
            guard line.hasPrefix("\(file.path):") else { return nil }
            let fields = line.dropFirst(file.path.count + 1).split(separator: ":", maxSplits: 2)
            guard fields.count == 3, let number = Int(fields[0]) else { return nil }
            let text = fields[2].drop { $0 == " " }
            return text.hasPrefix("note") ? nil : Diagnostic(line: number, text: String(text))
        }
    }
}
