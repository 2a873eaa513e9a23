import ConvoySerialization
import ConvoySupport
import Foundation

/// A decoder for one request of a manifest.
struct RequestReader {
    static let verbs = ["get", "head", "post", "put", "patch", "delete"]
    static let bodies = ["json", "form", "multipart", "text", "file"]
    static let keys =
        verbs + ["method", "url", "query", "headers"] + bodies + ["bearer", "basic", "expect", "capture", "output"]
        + [
            "after", "when", "forEach", "parallel", "perHost", "perSecond", "onFailure", "poll", "follow", "pages", "events",
            "retry", "timeout", "tags", "delay",
        ] + ConnectionPlan.keys

    private let name: String
    private let value: ManifestValue
    private let fields: [String: ManifestValue]
    private let defaults: [String: ManifestValue]

    static func plan(
        of member: ManifestValue.Member, defaults: [String: ManifestValue], connection: ConnectionPlan, hasBase: Bool
    ) throws(ManifestError) -> RequestPlan {
        let reader = RequestReader(
            name: member.key, value: member.value, fields: try member.value.fields(quoted(member.key), knowing: keys),
            defaults: defaults)
        return try reader.plan(connection: connection, hasBase: hasBase)
    }

    private func plan(connection: ConnectionPlan, hasBase: Bool) throws(ManifestError) -> RequestPlan {
        let (method, url) = try self.target(hasBase: hasBase)
        let position = value.document.position(of: value.pointer, key: true)
        var plan = RequestPlan(id: name, line: position.line, column: position.column, url: url)
        plan.method = method
        plan.query = try fields["query"].map { value throws(ManifestError) in try items(value, "query") } ?? []
        plan.headers = try headers()
        plan.body = try body()
        plan.login = try login()
        plan.hasDefaultLogin = fields["bearer"] == nil && fields["basic"] == nil
        plan.connection = connection
        try plan.connection.read(fields)
        // The login of a request replaces that of the defaults.
        if fields["aws-sigv4"] != nil {
            plan.login = .none
        } else if !plan.hasDefaultLogin {
            plan.connection.removeSignature()
        }
        plan.timeout = try setting("timeout").map { value throws(ManifestError) in try value.seconds("timeout") }
        plan.retry = try setting("retry").map(retry)
        plan.hasOwnRetry = fields["retry"] != nil
        plan.onFailure = try setting("onFailure").map { value throws(ManifestError) in
            let text = try value.string("onFailure")
            guard let rule = FailureRule(rawValue: text) else { throw value.problem("onFailure must be stop or continue") }
            return rule
        }
        plan.delay = try setting("delay").map { value throws(ManifestError) in try value.seconds("delay") } ?? 0
        try readFlow(&plan)
        plan.tags = try fields["tags"].map(tags) ?? []
        plan.output = try fields["output"].map { value throws(ManifestError) in try Template(value, "output") }
        if let text = plan.output?.literal, let output = fields["output"], OutputPath.normalized(text) == nil {
            throw output.problem("invalid output \(quoted(text)): it must be a path below the output directory")
        }
        plan.expectations = try ExpectationReader.plan(of: fields["expect"])
        for member in try fields["capture"]?.members("capture") ?? [] {
            plan.captures.append(try CaptureReader.plan(of: member))
        }
        try checkCombinations(plan)
        return plan
    }

    private func tags(_ value: ManifestValue) throws(ManifestError) -> [String] {
        let elements = if case .array = value.json { try value.elements("tags") } else { [value] }
        var tags: [String] = []
        for element in elements {
            let tag = try element.string("a tag")
            // The command line separates tags with commas.
            guard !tag.isEmpty, !tag.contains(","), !Escaping.hasControls(tag) else {
                throw element.problem("invalid tag \(quoted(tag))")
            }
            tags.append(tag)
        }
        return tags
    }

    private func checkCombinations(_ plan: RequestPlan) throws(ManifestError) {
        func refuse(_ key: String, with other: String) throws(ManifestError) {
            guard let one = fields[key], fields[other] != nil else { return }
            throw one.problem("\(key) and \(other) cannot be combined", atKey: true)
        }
        for other in ["poll", "follow", "output"] { try refuse("events", with: other) }
        try refuse("poll", with: "follow")
        try refuse("follow", with: "output")
        try refuse("poll", with: "output")
        for other in ["bearer", "basic", "multipart"] { try refuse("aws-sigv4", with: other) }
        if plan.connection.isSigned, let multipart = fields["multipart"] {
            throw multipart.problem("aws-sigv4 and multipart cannot be combined", atKey: true)
        }
        if let pages = fields["pages"], fields["follow"] == nil { throw pages.problem("pages requires follow", atKey: true) }
        if let parallel = fields["parallel"], fields["forEach"] == nil {
            throw parallel.problem("parallel requires forEach", atKey: true)
        }
    }

    /// Returns the setting of the request, or else the default.
    private func setting(_ key: String) -> ManifestValue? { fields[key] ?? defaults[key] }

    // MARK: The target

    private func target(hasBase: Bool) throws(ManifestError) -> (String, Template) {
        let verbs = Self.verbs.filter { fields[$0] != nil }
        if verbs.count > 1, let second = fields[verbs[1]] {
            throw second.problem("\(quoted(name)) has both \(verbs[0]) and \(verbs[1])", atKey: true)
        }
        if let verb = verbs.first, let address = fields[verb] {
            for key in ["method", "url"] {
                if let other = fields[key] {
                    throw other.problem(
                        "\(quoted(name)) has both \(verb) and \(key)",
                        atKey: true)
                }
            }
            return (verb.uppercased(), try url(address, verb, hasBase: hasBase))
        }
        guard let address = fields["url"] else {
            throw value.problem(
                "\(quoted(name)) has no URL: use get, head, post, put, patch or delete, or method and url", atKey: true)
        }
        var method = "GET"
        if let value = fields["method"] {
            method = try value.string("method")
            let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
            if known.contains(method.uppercased()), method != method.uppercased() {
                throw value.problem("methods are case-sensitive: use \(method.uppercased())")
            }
            let characters = "!#$%&'*+-.^_`|~".unicodeScalars
            let isToken =
                !method.isEmpty
                && method.unicodeScalars.allSatisfy {
                    $0.isASCII && ($0.properties.isAlphabetic || (0x30...0x39).contains($0.value) || characters.contains($0))
                }
            guard isToken, method != "CONNECT" else { throw value.problem("invalid method \(quoted(method))") }
        }
        return (method, try url(address, "url", hasBase: hasBase))
    }

    private func url(_ value: ManifestValue, _ key: String, hasBase: Bool) throws(ManifestError) -> Template {
        let template = try Template(value, key)
        guard case .literal(let start)? = template.pieces.first else {
            // An empty URL is that of the manifest.
            guard !template.pieces.isEmpty || hasBase else { throw value.problem("the URL is empty") }
            return template
        }
        if Escaping.hasControls(start) || start.contains("\t") {
            throw value.problem("invalid URL: it contains a control character")
        }
        if start.hasScheme {
            guard Target("\(start.prefix { $0 != ":" })://host") != nil else {
                throw value.problem("invalid URL: it must be an http or https URL")
            }
            if template.pieces.count == 1, URLReference.url(start).flatMap({ Target($0) }) == nil {
                throw value.problem("invalid URL: it has no host")
            }
        } else if !hasBase {
            throw value.problem("the URL is relative, but the manifest has no baseURL")
        }
        return template
    }

    // MARK: What is sent

    private func items(
        _ value: ManifestValue, _ what: String
    ) throws(ManifestError) -> [(name: Template, value: TreeTemplate)] {
        var items: [(name: Template, value: TreeTemplate)] = []
        for member in try value.pairs(what) {
            if case .object = member.value.json {
                throw member.value.problem("a value in \(what) must be text, a number, true, false or a list")
            }
            items.append((try member.name(), try TreeTemplate(member.value)))
        }
        return items
    }

    private func headers() throws(ManifestError) -> [(name: String, value: Template?, isDefault: Bool)] {
        var headers: [(name: String, value: Template?, isDefault: Bool)] = []
        for (source, isDefault) in [(defaults["headers"], true), (fields["headers"], false)] {
            var known: Set<String> = []
            for member in try source?.members("headers") ?? [] {
                let characters = "!#$%&'*+-.^_`|~".unicodeScalars
                guard !member.key.isEmpty,
                    member.key.unicodeScalars.allSatisfy({
                        $0.isASCII
                            && ($0.properties.isAlphabetic || (0x30...0x39).contains($0.value) || characters.contains($0))
                    })
                else { throw member.problem("invalid header name \(quoted(member.key))") }
                guard known.insert(member.key.lowercased()).inserted else {
                    throw member.problem("the header \(quoted(member.key)) is given twice")
                }
                headers.removeAll { $0.name.lowercased() == member.key.lowercased() }
                var text: Template?
                switch member.value.json {
                case .null: break
                case .number(let number): text = try Template(number.text, at: member.value)
                case .array:
                    // Repeated fields are equivalent to one field with a list (RFC 9110, section 5.3).
                    var values: [String] = []
                    for element in try member.value.elements("a header") {
                        if case .number(let number) = element.json {
                            values.append(number.text)
                        } else {
                            values.append(try element.string("a header"))
                        }
                    }
                    let separator = member.key.lowercased() == "cookie" ? "; " : ", "
                    text = try Template(values.joined(separator: separator), at: member.value)
                default: text = try Template(member.value, "a header")
                }
                let hasControls =
                    text?.pieces.contains { if case .literal(let text) = $0 { Escaping.hasControls(text) } else { false } }
                    ?? false
                guard !hasControls else { throw member.value.problem("a header must not contain control characters") }
                headers.append((member.key, text, isDefault))
            }
        }
        return headers
    }

    private func body() throws(ManifestError) -> BodyPlan {
        let bodies = Self.bodies.filter { fields[$0] != nil }
        if bodies.count > 1, let second = fields[bodies[1]] {
            throw second.problem("\(quoted(name)) has both \(bodies[0]) and \(bodies[1])", atKey: true)
        }
        guard let key = bodies.first, let value = fields[key] else { return .none }
        switch key {
        case "json": return .json(try TreeTemplate(value))
        case "form": return .form(try items(value, "form"))
        case "text": return .text(try Template(value, "text"))
        case "file":
            let template = try Template(value, "file")
            try checkFile(template)
            return .file(template)
        default:
            var parts: [PartPlan] = []
            for member in try value.pairs("multipart") {
                guard case .array = member.value.json else {
                    parts.append(try part(member))
                    continue
                }
                for element in try member.value.elements("multipart") {
                    parts.append(try part(ManifestValue.Member(key: member.key, value: element)))
                }
            }
            return .multipart(parts)
        }
    }

    private func part(_ member: ManifestValue.Member) throws(ManifestError) -> PartPlan {
        guard case .object = member.value.json else {
            switch member.value.json {
            case .number(let number):
                return PartPlan(name: try member.name(), value: try Template(number.text, at: member.value))
            default: return PartPlan(name: try member.name(), value: try Template(member.value, "a part"))
            }
        }
        let fields = try member.value.fields("a part", knowing: ["file", "value", "name", "type"])
        guard let content = fields["file"] ?? fields["value"], fields["file"] == nil || fields["value"] == nil else {
            throw member.value.problem("a part must have either file or value")
        }
        var part = PartPlan(name: try member.name(), value: try Template(content, "a part"))
        part.isFile = fields["file"] != nil
        if part.isFile { try checkFile(part.value) }
        part.fileName = try fields["name"].map { value throws(ManifestError) in try Template(value, "name") }
        part.type = try fields["type"].map { value throws(ManifestError) in try value.string("type") }
        if let type = part.type, Escaping.hasControls(type) { throw member.value.problem("invalid type") }
        return part
    }

    /// Checks that a file with a literal path is readable.
    private func checkFile(_ template: Template) throws(ManifestError) {
        guard let path = template.literal else { return }
        _ = try template.source.path("file")
        try template.source.checkFile(path)
    }

    private func login() throws(ManifestError) -> LoginPlan {
        if let bearer = fields["bearer"], fields["basic"] != nil {
            throw bearer.problem("\(quoted(name)) has both bearer and basic", atKey: true)
        }
        let hasOwn = fields["bearer"] != nil || fields["basic"] != nil
        let source = hasOwn ? fields : defaults
        if let bearer = source["bearer"] { return .bearer(try Template(bearer, "bearer")) }
        guard let basic = source["basic"] else { return .none }
        let parts = try basic.fields("basic", knowing: ["user", "password"])
        guard let user = parts["user"], let password = parts["password"] else {
            throw basic.problem("basic requires user and password")
        }
        return .basic(user: try Template(user, "user"), password: try Template(password, "password"))
    }

    private func retry(_ value: ManifestValue) throws(ManifestError) -> RetryPlan {
        guard case .object = value.json else { return RetryPlan(count: try value.integer("retry", in: 0...1000)) }
        let fields = try value.fields("retry", knowing: ["count", "on", "maxTime"])
        var plan = RetryPlan(
            count: try fields["count"].map { value throws(ManifestError) in try value.integer("count", in: 0...1000) } ?? 3)
        for element in try fields["on"]?.elements("on") ?? [] {
            plan.statuses.insert(try element.integer("a status", in: 400...599))
        }
        plan.maximumTime = try fields["maxTime"].map { value throws(ManifestError) in try value.seconds("maxTime") }
        return plan
    }

    // MARK: The flow

    private func readFlow(_ plan: inout RequestPlan) throws(ManifestError) {
        if let value = fields["when"] { plan.when = try Expression(value, "when") }
        if let value = fields["forEach"] {
            let tree = try TreeTemplate(value)
            switch tree {
            case .array: break
            case .text(let template) where template.wholeValue != nil: break
            default: throw value.problem("forEach must be a list, or one ${…} that is a list")
            }
            plan.forEach = tree
        }
        plan.parallel = try fields["parallel"].map { value throws(ManifestError) in
            try value.integer("parallel", in: 1...256)
        }
        let perHost = try fields["perHost"].map { value throws(ManifestError) in try value.integer("perHost", in: 1...256) }
        let perSecond = try fields["perSecond"].map { value throws(ManifestError) in try value.rate("perSecond") }
        if perHost != nil || perSecond != nil { plan.limits = RequestLimits(perHost: perHost, perSecond: perSecond) }
        if let value = fields["poll"] {
            let parts = try value.fields("poll", knowing: ["until", "every", "for", "backoff"])
            guard let until = parts["until"] else { throw value.problem("poll requires until") }
            plan.poll = PollPlan(
                until: try Expression(until, "until", in: .response),
                every: try parts["every"].map { value throws(ManifestError) in try value.seconds("every") } ?? 1,
                limit: try parts["for"].map { value throws(ManifestError) in try value.seconds("for") } ?? 60,
                backoff: try parts["backoff"].map { value throws(ManifestError) in try value.factor("backoff") } ?? 1)
        }
        if let value = fields["follow"] {
            plan.follow = try CaptureReader.source(of: value, "follow")
            if let pages = fields["pages"] { plan.maximumPages = try pages.integer("pages", in: 1...100_000) }
        }
        if let value = fields["events"] { plan.events = try ExpectationReader.events(of: value) }
    }
}
