import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation

/// The values for `until` and `expect`: the received response, its captures, and the values that the request itself can
/// use.
struct ResponseScope: Scope {
    let examined: ReceivedResponse
    let outer: ItemScope
    /// The request whose captures are known.
    var id = ""
    var captures: [String: JSON] = [:]

    var response: ReceivedResponse? { examined }

    var files: FileRoot { outer.files }

    func hides(_ expression: Expression) -> Bool { outer.hides(expression) }

    func value(of reference: Reference) throws(EvaluationError) -> ScopedValue {
        guard reference.root == id, let name = reference.path.first else { return try outer.value(of: reference) }
        guard let value = captures[name]?.value(at: reference.path.dropFirst()) else {
            throw EvaluationError(message: "\(reference) has no value")
        }
        return ScopedValue(json: value, isHostile: true)
    }

    func operand(
        _ reference: Reference, isQuoted: Bool
    ) throws(EvaluationError) -> (value: ExpressionValue, isHostile: Bool) {
        if !isQuoted, let name = ResponseName(rawValue: reference.root) {
            return (try value(of: name, at: reference.path), true)
        }
        if reference.root == id, let name = reference.path.first {
            guard let value = captures[name] else { return (.missing("the capture found nothing"), true) }
            return (value.value(at: reference.path.dropFirst()).map { .json($0) } ?? .nothing, true)
        }
        let value = try outer.value(of: reference)
        return (.json(value.json), value.isHostile)
    }

    private func value(of name: ResponseName, at path: [String]) throws(EvaluationError) -> ExpressionValue {
        let response = examined
        switch name {
        case .headers:
            guard !path.isEmpty else { return .json(fields) }
            return (response.field(path.joined(separator: ".")).map { .string($0) }) ?? .nothing
        case .cookies: return response.cookie(at: path).map { .json($0) } ?? .nothing
        case .body where path.isEmpty:
            try response.checkLength()
            return .string(response.text)
        case .body, .json:
            let json: JSON
            do throws(EvaluationError) { json = try response.parsedJSON() } catch { return .missing(error.message) }
            return json.value(at: path).map { .json($0) } ?? Self.missing(path, in: json)
        case .redirects:
            return JSON.array(response.redirects.filter(\.wasFollowed).map(Self.json)).value(at: path).map { .json($0) }
                ?? .nothing
        default: break
        }
        guard path.isEmpty else { return .missing("\(name.rawValue) has no members") }
        switch name {
        case .status: return response.status.map { .number($0) } ?? .nothing
        case .url: return response.url.map { .string($0.absoluteString) } ?? .nothing
        case .version: return .string(response.version)
        case .ip: return response.address.map { .string($0) } ?? .nothing
        case .duration:
            return JSONNumber((response.seconds * 1e6).rounded() / 1e6).map { .json(.number($0)) } ?? .nothing
        case .bytes:
            try response.checkLength()
            return .bytes(response.data)
        default:
            try response.checkLength()
            let digest = MessageDigest(name == .md5 ? .md5 : .sha256)
            digest.update(response.data)
            return digest.value().map { .string($0.hexadecimalString) } ?? .nothing
        }
    }

    /// Returns the reason why a path does not exist: the first name that is missing.
    private static func missing(_ path: [String], in json: JSON) -> ExpressionValue {
        var json = json
        for name in path {
            guard let next = json.value(at: [name]) else {
                var near = ""
                if case .object(let object) = json {
                    near = Suggestion.text(for: name, among: object.members.prefix(1000).map(\.key))
                }
                return .missing("\(quoted(name)) is not in the \(json.typeName)\(near)")
            }
            json = next
        }
        return .nothing
    }

    /// The fields of the response, with repeated fields joined.
    private var fields: JSON {
        var object = JSONObject()
        for field in examined.fields {
            let name = field.name.lowercased()
            object[name] = .string(object[name].map { "\($0.text), \(field.value)" } ?? field.value)
        }
        return .object(object)
    }

    private static func json(_ redirect: RedirectEvent) -> JSON {
        [
            "status": .number(JSONNumber(redirect.statusCode)), "url": .string(redirect.from.absoluteString),
            "location": redirect.to.map { .string($0.absoluteString) } ?? nil,
        ]
    }
}

extension RedirectEvent {
    fileprivate var wasFollowed: Bool {
        switch outcome {
        case .followed, .changedByHandler: true
        case .keptAsResponse, .refused: false
        }
    }
}
