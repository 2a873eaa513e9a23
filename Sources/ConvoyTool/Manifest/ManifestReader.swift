import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking

/// A reader that creates requests from the JSON of a manifest.
struct ManifestReader {
    private var manager = HTTPRequestOperationManager()
    private let timeout: Double?
    private var outputs = OutputPaths()

    /// The base URL, or nil until it has been read.
    var baseURL: URL? { manager.baseURL }

    init(timeout: Double?) { self.timeout = timeout }

    mutating func requests(in root: JSONValue) throws(JSONProblem) -> [Manifest.Request] {
        let members = try object(root, "the manifest", knowing: ["baseURL", "requests"])
        if let base = members["baseURL"] {
            let text = try string(base, "baseURL")
            let url = URLReference.url(text)
            guard let url, Self.isWhole(url) else {
                throw base.problem("invalid URL in baseURL: it must be an absolute http or https URL")
            }
            manager = HTTPRequestOperationManager(baseURL: url)
        }
        guard let list = members["requests"] else { throw root.problem("the manifest has no \"requests\"") }
        guard case .array(let elements) = list.content else { throw list.problem("requests must be an array") }

        var requests: [Manifest.Request] = []
        var places: [String: JSONValue] = [:]
        for element in elements {
            let request = try self.request(element)
            guard places.updateValue(element, forKey: request.id) == nil else {
                throw element.problem("the id \(Self.quoted(request.id)) is used twice")
            }
            requests.append(request)
        }
        for request in requests {
            for other in request.dependsOn where places[other] == nil {
                let text = "\(Self.quoted(request.id)) depends on \(Self.quoted(other)), which does not exist"
                throw (places[request.id] ?? list).problem(text)
            }
        }
        let edges = Dictionary(requests.map { ($0.id, $0.dependsOn) }, uniquingKeysWith: { first, _ in first })
        if let cycle = DependencyCycle.find(in: edges, order: requests.map(\.id)), let first = cycle.first {
            let path = (cycle + [first]).map(Self.quoted).joined(separator: " -> ")
            throw (places[first] ?? list).problem("circular dependency: \(path)")
        }
        return requests
    }

    private mutating func request(_ value: JSONValue) throws(JSONProblem) -> Manifest.Request {
        let keys = ["id", "method", "url", "headers", "parameters", "dependsOn", "output"]
        let members = try object(value, "a request", knowing: keys)
        guard let id = members["id"] else { throw value.problem("a request has no \"id\"") }
        let name = try string(id, "id")
        guard !name.isEmpty else { throw id.problem("the id is empty") }
        guard let address = members["url"] else { throw value.problem("\(Self.quoted(name)) has no \"url\"") }
        let url = try self.url(address, of: name)
        let method = try members["method"].map(self.method) ?? .get
        var headers = try members["headers"].map(self.headers) ?? [:]
        let output = try members["output"].map { value throws(JSONProblem) in try self.output(value, of: name) }
        if output != nil { Headers.askForIdentity(&headers) }
        let dependsOn = try members["dependsOn"].map(strings) ?? []
        let request: URLRequest
        do {
            request = try serializer(for: headers).request(
                method: method, url: try Login.taken(from: url)?.url ?? url, parameters: members["parameters"]?.parameters,
                headers: headers)
        } catch {
            throw value.problem("\(Self.quoted(name)): \(ErrorText.line(for: error))")
        }
        return Manifest.Request(
            id: name, request: request, url: url,
            dependsOn: dependsOn, output: output)
    }

    // MARK: The members of a request

    private func url(_ value: JSONValue, of id: String) throws(JSONProblem) -> URL {
        let text = try string(value, "url")
        if manager.baseURL == nil, let url = URL(string: text), url.scheme == nil {
            throw value.problem("invalid URL of \(Self.quoted(id)): it is relative, but the manifest has no baseURL")
        }
        do throws(URLError) {
            guard !text.unicodeScalars.contains(where: Printable.isObeyed) else { throw URLError(.badURL) }
            let url = try manager.url(for: text)
            guard Self.isWhole(url) else { throw URLError(.badURL) }
            return url
        } catch {
            let reason = error.userInfo[NSLocalizedDescriptionKey] as? String ?? "it must be an http or https URL"
            throw value.problem("invalid URL of \(Self.quoted(id)): \(Printable.line(Shown.text(reason)))")
        }
    }

    private func method(_ value: JSONValue) throws(JSONProblem) -> HTTPMethod {
        let text = try string(value, "method")
        let known: [HTTPMethod] = [.get, .head, .post, .put, .patch, .delete, .options, .trace]
        let method = HTTPMethod(text)
        // Methods are case-sensitive (RFC 9110, section 9.1): "get" is a different method, which servers do not support.
        let meant = known.first { $0.rawValue == text.uppercased() }
        if let meant, meant != method {
            throw value.problem("invalid method \(Self.quoted(text)): methods are case-sensitive, use \(meant)")
        }
        guard method.isValid, method != .connect else { throw value.problem("invalid method \(Self.quoted(text))") }
        return method
    }

    private func headers(_ value: JSONValue) throws(JSONProblem) -> [String: String?] {
        guard case .object(let members) = value.content else { throw value.problem("headers must be an object") }
        var headers: [String: String?] = [:]
        var known: Set<String> = []
        for member in members {
            // Names are case-insensitive (RFC 9110, section 5.1), so it would be unclear which value applies.
            guard known.insert(member.key.lowercased()).inserted else {
                throw JSONProblem(
                    text: "the header \(Self.quoted(member.key)) is given twice", position: member.position)
            }
            if member.value.isNull {
                headers.updateValue(nil, forKey: member.key)
            } else {
                headers.updateValue(try string(member.value, "a header's value"), forKey: member.key)
            }
        }
        return headers
    }

    private mutating func output(_ value: JSONValue, of id: String) throws(JSONProblem) -> String {
        let text = try string(value, "output")
        guard let path = RelativePath.normalized(text) else {
            throw value.problem(
                "invalid output \(Self.quoted(text)): it must be a path below the output directory; see --directory")
        }
        switch outputs.add(path, of: id) {
        case nil: return path
        case .same(let other):
            throw value.problem("\(Self.quoted(other)) and \(Self.quoted(id)) have the same output")
        case .below(let file, let owner, let other):
            let (file, owner, other) = (Self.quoted(file), Self.quoted(owner), Self.quoted(other))
            throw value.problem("the output of \(other) is below \(file), which is a file of \(owner)")
        }
    }

    /// Returns the serializer for parameters: JSON if the `Content-Type` is JSON, otherwise a form.
    private func serializer(for headers: [String: String?]) -> any URLRequestSerialization {
        let type = headers.first { $0.key.lowercased() == "content-type" }?.value ?? nil
        var http = HTTPRequestSerializer()
        Headers.setDefaults(&http)
        http.timeoutInterval = timeout
        let isJSON = (type ?? "").lowercased().hasPrefix("application/json")
        return isJSON ? JSONRequestSerializer(http: http) : http
    }

    // MARK: JSON

    private func object(
        _ value: JSONValue, _ what: String, knowing keys: [String]
    ) throws(JSONProblem) -> [String: JSONValue] {
        guard case .object(let members) = value.content else { throw value.problem("\(what) must be an object") }
        var values: [String: JSONValue] = [:]
        for member in members {
            guard keys.contains(member.key) else {
                throw JSONProblem(
                    text: "unknown key \(Self.quoted(member.key)) in \(what)", position: member.position)
            }
            // A null value counts as absent.
            if !member.value.isNull { values[member.key] = member.value }
        }
        return values
    }

    private func string(_ value: JSONValue, _ what: String) throws(JSONProblem) -> String {
        guard case .string(let text) = value.content else { throw value.problem("\(what) must be a string") }
        return text
    }

    private func strings(_ value: JSONValue) throws(JSONProblem) -> [String] {
        guard case .array(let values) = value.content else { throw value.problem("dependsOn must be an array") }
        var strings: [String] = []
        var known: Set<String> = []
        for value in values {
            let text = try string(value, "an id in dependsOn")
            if known.insert(text).inserted { strings.append(text) }
        }
        return strings
    }

    private static func isWhole(_ url: URL) -> Bool {
        Target(url).map { $0.port > 0 } ?? false
    }

    private static func quoted(_ text: String) -> String { "\"\(Printable.line(text))\"" }
}
