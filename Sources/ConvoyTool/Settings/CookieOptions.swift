import Convoy
import ConvoySupport
import Foundation
import Glibc

/// The cookie file option. Without it, cookies last for one run.
struct CookieOptions {
    private let store: CookieStore
    private let file: String?

    /// Uses cookies that are stored elsewhere.
    init(_ store: CookieStore) {
        self.store = store
        file = nil
    }

    /// Reads the file. Throws a usage error if it contains anything other than cookies, because the file would be
    /// overwritten.
    init(_ options: Options, _ display: Display) throws(ToolError) {
        store = CookieStore()
        file = options.value("cookie-jar")
        guard let file else { return }
        guard !file.isEmpty, file != "-" else { throw options.usage("--cookie-jar needs a file") }
        var facts = stat()
        // If the file is not accessible, reading it reports the error.
        if stat(file, &facts) != 0, errno == ENOENT {
            let directory = PathText.directory(of: file)
            guard access(directory, W_OK | X_OK) == 0 else {
                throw .usage("--cookie-jar: \(Printable.line(file)) cannot be written: \(String(cString: strerror(errno)))")
            }
            return
        }
        let report: NetscapeCookieReport
        do throws(CookieStoreError) {
            report = try store.read(netscapeFile: UserPath.url(file))
        } catch {
            throw .usage("--cookie-jar: \(Printable.line(error.description))")
        }
        if let line = report.badLines.first {
            throw .usage("--cookie-jar: line \(line) of \(Printable.line(file)) is not a cookie")
        }
        guard !report.refusedLines.isEmpty else { return }
        let lines = report.refusedLines.map(String.init).joined(separator: ", ")
        display.complain("\(Printable.line(file)): skipped cookies that no server may set, on line \(lines)")
    }

    func apply(to operation: URLConnectionOperation) { operation.cookieStore = store }

    /// Writes the file, even after an interruption.
    ///
    /// - Returns: The status of the run, which fails if the file cannot be written.
    func finish(_ status: ExitStatus, _ display: Display) -> ExitStatus {
        guard let file else { return status }
        do throws(CookieStoreError) {
            let left = try store.writeNetscape(to: UserPath.url(file))
            guard !left.isEmpty else { return status }
            display.complain(
                "\(Printable.line(file)): cannot store \(left.count) cookie\(left.count == 1 ? "" : "s") "
                    + "without a name or with a tab")
            return status
        } catch {
            display.complain("--cookie-jar: \(Printable.line(error.description))")
            return status == .success ? .failed(.disk) : status
        }
    }
}
