/// Finds the route for a method and a path.
///
/// An exact path takes precedence over a prefix, and a longer prefix over a shorter one; for one path, the method over
/// "any method", and GET answers HEAD if nothing else does.
struct RouteTable: Sendable {
    /// The result of a look-up.
    enum Match {
        case route(Route)
        /// The path has routes, but only for these other methods.
        case otherMethods([String])
        case none
    }

    private typealias Methods = [String: Route]
    private var exact: [String: Methods] = [:]
    private var prefixes: [(prefix: String, methods: Methods)] = []
    private static let anyMethod = ""

    /// Adds a route, or replaces the one of the same method and path. A path that ends in "*" is a prefix.
    mutating func set(_ route: Route, method: String?, path: String) {
        let method = method ?? Self.anyMethod
        guard path.hasSuffix("*") else {
            exact[path, default: [:]][method] = route
            return
        }
        let prefix = String(path.dropLast())
        if let index = prefixes.firstIndex(where: { $0.prefix == prefix }) {
            prefixes[index].methods[method] = route
        } else {
            let index = prefixes.firstIndex { $0.prefix.utf8.count < prefix.utf8.count } ?? prefixes.count
            prefixes.insert((prefix, [method: route]), at: index)
        }
    }

    /// Removes the routes of a path for every method.
    mutating func remove(path: String) {
        guard path.hasSuffix("*") else {
            exact[path] = nil
            return
        }
        prefixes.removeAll { $0.prefix == path.dropLast() }
    }

    func match(method: String, path: String) -> Match {
        var others: [String] = []
        if let methods = exact[path] {
            if let route = Self.choose(methods, method) { return .route(route) }
            others = methods.keys.sorted()
        }
        for (prefix, methods) in prefixes where path.utf8.starts(with: prefix.utf8) {
            if let route = Self.choose(methods, method) { return .route(route) }
            others += methods.keys.sorted()
        }
        return others.isEmpty ? .none : .otherMethods(others)
    }

    private static func choose(_ methods: Methods, _ method: String) -> Route? {
        methods[method] ?? methods[anyMethod] ?? (method == "HEAD" ? methods["GET"] : nil)
    }
}
