import ConvoyCookies
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import Foundation

/// The cookies of a run and the hosts that require HTTPS, with the files that its manifest names.
struct RunStores: Sendable {
    private let cookies: CookieStore?
    private let hosts: HSTSStore?
    private let cookieFile: URL?

    /// Reads the files. A missing cookie file is created at the end of the run.
    ///
    /// - Throws: `CookieStoreError` or `HSTSStoreError`.
    init(_ plan: WorkflowPlan) throws {
        cookieFile = plan.cookieJar
        hosts = try plan.hsts.map { try HSTSStore(file: $0) }
        guard cookieFile != nil || !plan.cookies.isEmpty else {
            cookies = nil
            return
        }
        let store = CookieStore()
        cookies = store
        if let cookieFile { try Self.read(cookieFile, into: store) }
        if let url = plan.baseURL {
            store.setCookies(plan.cookies.map { "\($0.name)=\($0.value); Path=/" }, from: url)
        }
    }

    private static func read(_ cookieFile: URL, into store: CookieStore) throws {
        if access(cookieFile.path, F_OK) == 0 {
            let report = try store.read(netscapeFile: cookieFile)
            // A file with other contents would be overwritten.
            if let line = report.badLines.first {
                throw CookieStoreError.cannotRead(cookieFile.path, reason: "line \(line) is not a cookie")
            }
        } else if access(cookieFile.deletingLastPathComponent().path, W_OK | X_OK) != 0 {
            // Report the error now. Otherwise the cookies would be lost at the end of the run.
            throw CookieStoreError.cannotWrite(cookieFile.path, reason: SystemError().text)
        }
    }

    func apply(to operation: HTTPRequestOperation) {
        if let cookies { operation.cookieStore = cookies }
        if let hosts { operation.updateSettings { $0.connectionConfiguration.hsts = hosts } }
    }

    /// Writes the files.
    ///
    /// - Returns: The write failures, each on one line.
    func save() async -> [String] {
        guard cookies != nil || hosts != nil else { return [] }
        return await withCheckedContinuation { continuation in
            // Writing blocks, so write on a libdispatch thread.
            DispatchQueue.global().async { continuation.resume(returning: write()) }
        }
    }

    private func write() -> [String] {
        var problems: [String] = []
        if let cookies, let cookieFile {
            do throws(CookieStoreError) {
                _ = try cookies.writeNetscape(to: cookieFile)
            } catch {
                problems.append("cookie-jar: \(error.description)")
            }
        }
        do throws(HSTSStoreError) {
            try hosts?.save()
        } catch {
            problems.append("hsts: \(error.description)")
        }
        return problems
    }
}
