import Convoy
import ConvoySupport
import ConvoyWorkflow
import Foundation
import FoundationNetworking

/// A named session of `convoy send`: the cookies, the header fields and the login of one server, in a file that only the
/// user can read.
struct SendSession {
    /// The maximum size of the file, in bytes.
    static let maximumLength = 32 << 20

    private let path: String
    private let option: String
    /// The server, with its scheme and port.
    private let server: String
    private var headers: [(name: String, value: String)] = []
    private var login: (user: String, password: String)?
    let cookies = CookieStore()

    /// Reads the session that the options name. Returns nil without the options.
    ///
    /// - Throws: A usage error if the name is invalid, or if the file is not a session of this server.
    init?(_ options: Options, for url: URL) throws(ToolError) {
        let names = ["session", "session-read-only"].filter(options.has)
        guard let option = names.first, let name = options.value(option) else { return nil }
        guard names.count == 1, !options.has("cookie-jar") else {
            let other = names.count > 1 ? names[1] : "cookie-jar"
            throw options.usage("--\(option) and --\(other) cannot be combined")
        }
        let isPlain = name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
        guard isPlain, (1...100).contains(name.utf8.count), !name.hasPrefix(".") else {
            throw options.usage("--\(option) takes a name of letters, digits, hyphens, underscores and dots")
        }
        guard let target = Target(url) else { throw options.usage("invalid URL") }
        guard let directory = Self.directory(in: ProcessInfo.processInfo.environment) else {
            throw options.usage("--\(option) needs the environment variable HOME")
        }
        server = "\(target.isSecure ? "https" : "http")://\(target.host):\(target.port)"
        let host = String(target.host.map { $0.isASCII && ($0.isLetter || $0.isNumber || ".-".contains($0)) ? $0 : "_" })
        path = "\(directory)/\(host)_\(target.port)/\(name).json"
        self.option = option
        try read()
    }

    /// Returns the directory of all sessions according to the XDG Base Directory Specification, which ignores variables
    /// without an absolute path. Returns nil without a home directory.
    static func directory(in environment: [String: String]) -> String? {
        func variable(_ name: String) -> String? { environment[name].flatMap { $0.hasPrefix("/") ? $0 : nil } }
        let state = variable("XDG_STATE_HOME") ?? variable("HOME").map { PathText.join($0, ".local/state") }
        return state.map { PathText.join($0, "convoy/sessions") }
    }

    // MARK: The request

    /// Adds the fields and the login of the session to a request. Those of the command line take precedence.
    func apply(to draft: inout RequestDraft, _ options: inout Options) {
        let hasLogin = options.has("user")
        for header in headers {
            let name = header.name.lowercased()
            let isGiven = draft.headers.contains { $0.name.lowercased() == name }
            let isRemoved = draft.removedHeaders.contains { $0.lowercased() == name }
            guard !isGiven, !isRemoved, !(hasLogin && name == "authorization") else { continue }
            draft.headers.append(header)
        }
        let hasField = draft.headers.contains { $0.name.lowercased() == "authorization" }
        if let login, !hasLogin, !hasField { options = options.replacing(["user": ["\(login.user):\(login.password)"]]) }
    }

    /// Updates the session with a request, and writes it.
    ///
    /// - Parameter credential: The login that was given or typed, or nil.
    func save(_ draft: RequestDraft, _ credential: URLCredential?) throws(ToolError) {
        guard option == "session" else { return }
        var session = self
        // Fields about a single body or a condition do not belong to the next request.
        let kept = draft.headers.filter { header in
            let name = header.name.lowercased()
            return !["content-", "if-"].contains(where: name.hasPrefix) && !["cookie", "range", "host"].contains(name)
        }
        session.headers = kept.map { ($0.name, $0.value) }
        // A field replaces the login of earlier requests.
        if kept.contains(where: { $0.name.lowercased() == "authorization" }) { session.login = nil }
        if let credential, let user = credential.user, !user.isEmpty {
            session.login = (user, credential.password ?? "")
        }
        try session.write()
    }

    // MARK: The file

    private func failure(_ reason: String) -> ToolError {
        .usage("--\(option): \(Printable.line(path)): \(Printable.line(reason))")
    }

    private mutating func read() throws(ToolError) {
        let descriptor: Int32
        do throws(PrivateFile.Failure) {
            descriptor = try PrivateFile.open(path)
        } catch {
            if case .system(let cause) = error, cause.code == ENOENT { return }
            throw failure(error.reason)
        }
        defer { close(descriptor) }
        let data = try InputFile.contents(of: descriptor, called: Printable.line(path), limit: Self.maximumLength)
        let json: JSON
        do throws(JSONSyntaxError) {
            json = try JSON(parsing: data, maximumDepth: 10, rejectsDuplicateKeys: true)
        } catch {
            throw failure("line \(error.position.line): \(error.reason)")
        }
        guard case .string(server)? = json[["server"]] else { throw failure("not a session of \(server)") }
        for member in try members(of: json, "headers") {
            guard case .string(let value) = member.value else { throw failure("the header \(member.key) is not text") }
            do throws(ToolError) { try Headers.check("\(member.key): \(value)") } catch { throw failure(error.text) }
            headers.append((member.key, value))
        }
        if try !members(of: json, "login").isEmpty {
            guard let user = json[["login", "user"]]?.string, let password = json[["login", "password"]]?.string else {
                throw failure("login has no user or no password")
            }
            login = (user, password)
        }
        guard case .array(let values) = json[["cookies"]] ?? .array([]) else { throw failure("cookies is not a list") }
        for value in values {
            guard let cookie = CookieStore.Cookie(value) else {
                throw failure("not a cookie: \(value[["name"]]?.string ?? "a value without a name")")
            }
            cookies.setCookie(cookie)
        }
    }

    /// Returns the members of an object in the file, which may be missing.
    private func members(of json: JSON, _ name: String) throws(ToolError) -> [JSONObject.Member] {
        switch json[name] {
        case nil: return []
        case .object(let object)?: return Array(object.members)
        default: throw failure("\(name) is not an object")
        }
    }

    private var json: JSON {
        var fields = JSONObject(), object = JSONObject()
        for header in headers { fields[header.name] = .string(header.value) }
        object["server"] = .string(server)
        object["headers"] = .object(fields)
        if let login { object["login"] = ["user": .string(login.user), "password": .string(login.password)] }
        object["cookies"] = .array(cookies.cookies.map(\.json))
        return .object(object)
    }

    private func write() throws(ToolError) {
        do throws(PrivateFile.Failure) {
            let directory = PathText.directory(of: path), all = PathText.directory(of: directory)
            let own = PathText.directory(of: all)
            // The directories above those of this program belong to the user, and may be links.
            for parent in Directories.parents(of: own) where !parent.isEmpty { mkdir(parent, 0o700) }
            for directory in [own, all, directory] { try PrivateFile.makeDirectory(directory) }
            // A link might lead to a file of another program.
            try PrivateFile.examine(path)
            try PrivateFile.replace(path, with: Array((JSONText.pretty(json) + "\n").utf8))
        } catch {
            throw ToolError.disk(failure(error.reason).text)
        }
    }
}

/// Functions that write JSON for files that people may read.
private enum JSONText {
    /// Returns the members of an object on separate lines.
    static func pretty(_ json: JSON) -> String {
        guard case .object(let object) = json else { return json.description }
        let lines = object.members.map { "  \(JSON.string($0.key)): \($0.value)" }
        return "{\n\(lines.joined(separator: ",\n"))\n}"
    }
}

extension JSON {
    fileprivate var string: String? { if case .string(let text) = self { text } else { nil } }
}

extension CookieStore.Cookie {
    /// Parses a cookie of a session. Returns nil if it is invalid.
    fileprivate init?(_ json: JSON) {
        guard let name = json[["name"]]?.string, let value = json[["value"]]?.string, let domain = json[["domain"]]?.string
        else { return nil }
        var expires: Date?
        if case .number(let seconds)? = json[["expires"]] {
            expires = Double(seconds.text).map(Date.init(timeIntervalSince1970:))
        }
        let sameSite = SameSite.allCases.first { "\($0)" == json[["sameSite"]]?.string } ?? .unspecified
        self.init(
            name: name, value: value, domain: domain, isHostOnly: json[["hostOnly"]] != false,
            path: json[["path"]]?.string ?? "/", isSecure: json[["secure"]] == true, isHTTPOnly: json[["httpOnly"]] == true,
            sameSite: sameSite, expires: expires)
    }

    fileprivate var json: JSON {
        var object = JSONObject()
        object["name"] = .string(name)
        object["value"] = .string(value)
        object["domain"] = .string(domain)
        object["path"] = .string(path)
        object["hostOnly"] = .bool(isHostOnly)
        object["secure"] = .bool(isSecure)
        object["httpOnly"] = .bool(isHTTPOnly)
        object["sameSite"] = .string("\(sameSite)")
        if let expires { object["expires"] = .number(JSONNumber(Int(expires.timeIntervalSince1970))) }
        return .object(object)
    }
}
