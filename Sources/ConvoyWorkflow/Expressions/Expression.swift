import ConvoySerialization
import Foundation

/// An expression of `when`, `until`, `expect` or a `${…}`. `convoy help run syntax` describes the language.
///
/// A reference may be written with or without `${…}`. Without, the values of a response take precedence.
struct Expression: Sendable {
    /// The identity of an expression in a manifest.
    final class Identity: Sendable {}

    /// The text as written.
    let source: String
    private(set) var identity = Identity()
    let root: Node
    /// The positions of the constants in the source, in Unicode scalars.
    let constants: [Range<Int>]

    enum Comparison: String, Sendable {
        case equal = "=="
        case unequal = "!="
        case less = "<"
        case lessOrEqual = "<="
        case greater = ">"
        case greaterOrEqual = ">="
    }

    indirect enum Node: Sendable {
        case constant(JSON)
        case list([Node])
        case object([(key: String, value: Node)])
        /// A value of the response or of the manifest.
        case reference(Reference, isQuoted: Bool)
        /// The current element of `map`.
        case element
        case member(Node, Node)
        case call(ExpressionFunction, [Node])
        case pipe(Node, [Step])
        case test(Test)
        case and([Node])
        case or([Node])
        case not(Node)
    }

    /// A filter with its arguments. The argument of `map` is evaluated for each element.
    struct Step: Sendable {
        let filter: ExpressionFilter
        let arguments: [Node]
    }

    /// A predicate that is applied to a value.
    struct Test: Sendable {
        /// The number of the test within its expression.
        let number: Int
        let predicate: Predicate
        let isNegated: Bool
        let subject: Node
        /// The second operand, or nil if the predicate has only one.
        let operand: Node?
        /// The position in the source, in Unicode scalars.
        let range: Range<Int>
    }

    /// Where an expression is evaluated, which determines the values that it can use.
    enum Context {
        /// Before a response is received.
        case request
        case response
    }

    /// Creates an expression from a value of a manifest: a string, or true or false.
    init(_ value: ManifestValue, _ what: String, in context: Context = .request) throws(ManifestError) {
        if case .bool(let constant) = value.json {
            source = constant ? "true" : "false"
            root = .constant(.bool(constant))
            constants = []
            return
        }
        let text = try value.string(what)
        do throws(ExpressionProblem) {
            self = try ExpressionParser.parse(text, in: context)
        } catch {
            throw value.problem("\(what): \(error.message)", atCharacter: error.offset)
        }
        try checkFiles(at: value)
    }

    init(source: String, root: Node, constants: [Range<Int>]) {
        self.source = source
        self.root = root
        self.constants = constants
    }

    /// The references to values of the manifest, of requests, and of the environment unless they have a default.
    var references: [Reference] { root.uses.filter { !$0.isResponse && !$0.hasDefault }.map(\.reference) }

    /// All references to values of the manifest, of requests and of the environment.
    var allReferences: [Reference] { root.uses.filter { !$0.isResponse }.map(\.reference) }

    /// Returns the reference that makes the value untrusted: the first one to a response or to an item.
    func source(in scope: some Scope) -> Reference {
        let all = allReferences
        return all.first { (try? scope.value(of: $0))?.isHostile == true } ?? all.first { $0.root == "item" }
            ?? Reference(root: "", path: [])
    }

    /// Checks that the files with constant paths are readable.
    func checkFiles(at value: ManifestValue) throws(ManifestError) {
        for path in root.files { try value.checkFile(path) }
    }

    /// The names of response values that the expression uses.
    var responseNames: Set<String> { Set(root.uses.filter(\.isResponse).map(\.reference.root)) }

    /// The names of all values and members that the expression uses, which determine whether a value is a secret.
    var names: [String] { root.names }

    /// Whether the expression uses a value that is a secret because of its name.
    var namesSecret: Bool { names.contains { $0 == ResponseName.cookies.rawValue || NamedSecrets.isSecret($0) } }
}

extension Expression.Node {
    /// A reference in an expression.
    struct Use {
        var reference: Reference
        var isResponse = false
        /// Whether the reference is `env(NAME, DEFAULT)`.
        var hasDefault = false
    }

    var children: [Expression.Node] {
        switch self {
        case .constant, .reference, .element: []
        case .list(let nodes), .and(let nodes), .or(let nodes), .call(_, let nodes): nodes
        case .object(let members): members.map(\.value)
        case .member(let one, let other): [one, other]
        case .pipe(let node, let steps): [node] + steps.flatMap(\.arguments)
        case .test(let test): [test.subject] + (test.operand.map { [$0] } ?? [])
        case .not(let node): [node]
        }
    }

    var uses: [Use] {
        switch self {
        case .reference(let reference, let isQuoted):
            return [Use(reference: reference, isResponse: !isQuoted && ResponseName(rawValue: reference.root) != nil)]
        case .call(.env, let arguments):
            guard case .constant(.string(let name))? = arguments.first else { return [] }
            let use = Use(reference: Reference(root: "env", path: [name]), hasDefault: arguments.count > 1)
            return [use] + arguments.dropFirst().flatMap(\.uses)
        default: return children.flatMap(\.uses)
        }
    }

    /// The constant paths of the files that the expression reads.
    fileprivate var files: [String] {
        if case .call(.file, let arguments) = self, case .constant(.string(let path))? = arguments.first { return [path] }
        return children.flatMap(\.files)
    }

    fileprivate var names: [String] {
        switch self {
        // The attributes of a cookie are not secret.
        case .reference(let reference, false)
        where reference.root == ResponseName.cookies.rawValue && reference.path.count > 1 && reference.path[1] != "value":
            return []
        case .reference(let reference, _): return [reference.root] + reference.path
        case .call(.xpath, let arguments), .call(.jsonpath, let arguments): return arguments.flatMap(\.words)
        case .call(.headers, let arguments), .call(.env, let arguments): return arguments.flatMap(\.words)
        case .member(let node, .constant(.string(let key))): return node.names + [key]
        case .pipe(let node, let steps):
            let words = steps.filter { [.jsonpath, .xpath].contains($0.filter) }.flatMap(\.arguments).flatMap(\.words)
            return node.names + words + steps.flatMap(\.arguments).flatMap(\.names)
        default: return children.flatMap(\.names)
        }
    }

    /// The words in a constant, such as the names in a path.
    private var words: [String] {
        guard case .constant(.string(let text)) = self else { return names }
        return text.split { !$0.isLetter && !$0.isNumber && $0 != "_" && $0 != "-" }.map(String.init)
    }
}

/// The values of a response in an expression.
enum ResponseName: String, CaseIterable, Sendable {
    case status, headers, cookies, body, json, bytes, url, redirects, version, ip, duration, sha256, md5
}
