import ConvoySerialization
import Foundation

/// The requests of an imported collection, in order. Each one waits for the one before.
struct ImportedRequests {
    /// The maximum number of nested folders.
    static let maximumDepth = 50

    private(set) var requests: [(name: String, draft: RequestDraft)] = []
    var variables: ImportedVariables
    /// The names that requests must not have: those of variables and of other requests.
    private var taken: Set<String>
    /// The last number that was appended to a name.
    private var numbers: [String: Int] = [:]

    /// - Parameter text: The collection, in which `{{…}}` names variables.
    init(_ variables: ImportedVariables, usedIn text: String) {
        self.variables = variables
        var taken: Set<String> = [], rest = text.utf8[...]
        while let brace = rest.firstIndex(of: UInt8(ascii: "{")) {
            rest = rest[brace...].dropFirst()
            guard rest.first == UInt8(ascii: "{") else { continue }
            let name = String(Substring(rest.dropFirst().prefix(200).prefix { $0 != UInt8(ascii: "}") }))
            taken.insert(ImportedVariables.name(name.trimmingCharacters(in: .whitespaces)))
        }
        self.taken = taken
    }

    /// Returns a name that no other request and no variable has.
    mutating func name(for title: String) -> String {
        var plain = ""
        for scalar in title.unicodeScalars {
            let isPlain = scalar.isASCII && (scalar.properties.isAlphabetic || (0x30...0x39).contains(scalar.value))
            if isPlain { plain.unicodeScalars.append(scalar) } else if plain.last != "-", !plain.isEmpty { plain += "-" }
        }
        plain = String(plain.prefix(40))
        while plain.hasSuffix("-") { plain.removeLast() }
        let base = Reference.isName(plain) ? plain : "request\(plain.isEmpty ? "" : "-\(plain)")"
        var name = base, number = numbers[base] ?? 1
        while taken.contains(name) || variables.needed[name] != nil || ReservedName.all.contains(name) {
            number += 1
            name = "\(base)-\(number)"
        }
        numbers[base] = number
        taken.insert(name)
        return name
    }

    /// Adds a request with the checks and captures of its scripts.
    mutating func add(_ draft: RequestDraft, named name: String, _ scripts: [String], checks: [String] = []) {
        var draft = draft, checks = checks
        for script in scripts {
            let reader = ScriptReader(script, variables)
            variables = reader.variables
            checks += reader.checks
            for capture in reader.captures { addCapture(capture.name, capture.source, to: &draft, of: name) }
            for constant in reader.constants { variables.setOnce(constant.name, to: constant.value, or: &draft) }
            draft.notes += reader.others.map { "not expressed: \($0)" }
        }
        var checksStatus = false
        checks = checks.filter { check in
            guard let expression = try? ExpressionParser.parse(check, in: .response) else {
                draft.notes.append("not expressed: \(check)")
                return false
            }
            checksStatus = checksStatus || expression.responseNames.contains(ResponseName.status.rawValue)
            return true
        }
        // The other programs do not fail because of a status.
        if !checksStatus { checks.insert("status >= 100", at: 0) }
        if let last = requests.last { draft.others["after"] = [.string(last.name)] }
        draft.others["expect"] = .array(checks.map { .string($0) })
        requests.append((name, draft))
    }

    mutating func addCapture(_ name: String, _ source: String, to draft: inout RequestDraft, of request: String) {
        let known = ImportedVariables.name(name)
        draft.captures.removeAll { $0.name == known }
        draft.captures.append((known, source))
        variables.capture(name, by: request)
    }

    var manifest: String { RequestDraft.manifest(requests, variables: variables.needed) }
}
