import Foundation

/// An X server without a screen, on a free display, for programs with windows.
public final class VirtualDisplay: Sendable {
    /// The name of the display, such as ":3".
    public let name: String
    private let process: ChildProcess
    private let directory: TemporaryDirectory

    /// Whether the X server and the programs that control and record windows are installed.
    public static var isInstalled: Bool {
        ["Xvfb", "xdotool", "import", "convert"].allSatisfy { Spawn.find($0) != nil }
    }
    /// The installation hint shown for a skipped test.
    public static let installHint = "Xvfb, xdotool or ImageMagick. Debian, Ubuntu: apt-get install xvfb xdotool imagemagick"

    /// Starts the X server, and returns when it has a display.
    ///
    /// - Throws: `ProcessError`.
    public init(width: Int = 1280, height: Int = 1024) throws {
        directory = try TemporaryDirectory(prefix: "convoy-display")
        let pipe = try Spawn.pipe()
        defer { close(pipe.reading) }
        do {
            defer { close(pipe.writing) }
            process = try ChildProcess(
                "Xvfb", ["-displayfd", "3", "-screen", "0", "\(width)x\(height)x24", "-nolisten", "tcp", "-noreset"],
                directory: directory.url, log: directory.file("output.log"), descriptors: [pipe.writing])
        }
        // The X server writes the number once it listens, and closes the pipe when it ends.
        var text = ""
        var bytes = [UInt8](repeating: 0, count: 16)
        while !text.hasSuffix("\n") {
            let count = read(pipe.reading, &bytes, bytes.count)
            guard count > 0 else { throw ProcessError.didNotStart("Xvfb: \(process.output)") }
            text += String(decoding: bytes[..<count], as: UTF8.self)
        }
        name = ":" + text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    deinit { process.stop() }

    /// Returns the environment of a program with windows on the display: rendered in software, without a session bus,
    /// and with its own directories.
    public func environment(scale: Int = 1, accessibility: String = "none") -> [String: String] {
        var environment = [
            "DISPLAY": name, "GDK_BACKEND": "x11", "GSK_RENDERER": "cairo", "LIBGL_ALWAYS_SOFTWARE": "1",
            "GDK_SCALE": "\(scale)", "GTK_A11Y": accessibility, "NO_AT_BRIDGE": "1", "GTK_THEME": "", "LANG": "C.UTF-8",
            "DBUS_SESSION_BUS_ADDRESS": "disabled:", "SWIFT_BACKTRACE": "enable=no",
            "WEBKIT_DISABLE_COMPOSITING_MODE": "1",
        ]
        for (name, folder) in [
            ("XDG_CACHE_HOME", "cache"), ("XDG_CONFIG_HOME", "config"), ("XDG_DATA_HOME", "data"),
            ("XDG_RUNTIME_DIR", "runtime"), ("HOME", "home"),
        ] {
            let url = directory.file(folder)
            try? FileManager.default.createDirectory(
                at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            environment[name] = url.path
        }
        // Unset the variable, because an empty theme name would be that of a missing theme.
        environment["GTK_THEME"] = nil
        return environment
    }

    /// Returns the upper left part of the display, scaled to a width: as three bytes per pixel, and as a PNG.
    public func picture(width: Int, height: Int, scaledTo scaledWidth: Int) throws -> (pixels: Data, png: Data) {
        let png = try ProcessRunner.run(
            "import",
            [
                "-display", name, "-window", "root", "-crop", "\(width)x\(height)+0+0", "+repage", "-filter", "Box",
                "-resize", "\(scaledWidth)x", "-strip", "png24:-",
            ], environment: environment(), timeout: 30)
        guard png.status == 0 else { throw ProcessError.didNotStart("import: \(png.errorText)") }
        return (try Self.pixels(of: png.output), png.output)
    }

    /// Returns the pixels of a PNG.
    public static func pixels(of png: Data) throws -> Data {
        let result = try ProcessRunner.run("convert", ["png:-", "-depth", "8", "rgb:-"], input: png, timeout: 30)
        guard result.status == 0 else { throw ProcessError.didNotStart("convert: \(result.errorText)") }
        return result.output
    }

    /// Sends keys or clicks to a window, in the syntax of `xdotool`. Returns its output.
    @discardableResult
    public func send(_ arguments: [String]) throws -> String {
        try ProcessRunner.run("xdotool", arguments, environment: environment(), timeout: 30).text
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
