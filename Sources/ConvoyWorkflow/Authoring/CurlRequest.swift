import ConvoySerialization
import ConvoySupport
import Foundation

extension CurlReader {
    /// Returns the requests of the command: one for each URL, and for each value of its patterns.
    func drafts() throws(CurlCommandLine.Problem) -> [RequestDraft] {
        guard !urls.isEmpty else { throw CurlCommandLine.Problem(description: "The command has no URL.") }
        var drafts: [RequestDraft] = []
        for (index, url) in urls.enumerated() {
            for (url, values) in usesPatterns ? try CurlGlob.expand(url) : [(url: url, values: [])] {
                drafts.append(try draft(url, values, index))
                guard drafts.count <= 1000 else {
                    throw CurlCommandLine.Problem(description: "The command has more than 1,000 URLs.")
                }
            }
        }
        return drafts
    }

    private func draft(
        _ address: String, _ values: [String], _ index: Int
    ) throws(CurlCommandLine.Problem) -> RequestDraft {
        let upload = index < uploads.count ? uploads[index] : nil
        var url = String(address.prefix { $0 != "#" })
        // Treat the login of a URL like that of `-u`, because curl also sends it immediately.
        let hasNUL = url.contains("%00")
        var login = (hasNUL ? nil : URLUserInfo.parts(of: url)).map { parts in
            (String(decoding: parts.user, as: UTF8.self), parts.password.map { String(decoding: $0, as: UTF8.self) })
        }
        // A decoded NUL would look like a reference to a variable.
        if !hasNUL { url = URLUserInfo.removed(from: url) }
        if let upload, !url.contains("?") || url.contains("/?") { url = Self.named(url, after: uploadedFile(upload)) }
        for query in (isGet && data.isGiven ? [data.text] : []) + queries where !query.isEmpty {
            url += (url.contains("?") ? (url.hasSuffix("?") ? "" : "&") : "?") + query
        }
        let hasBody = upload != nil || !parts.isEmpty || (data.isGiven && !isGet)
        let usual = isHead ? "HEAD" : upload != nil ? "PUT" : hasBody ? "POST" : "GET"
        var draft = RequestDraft(method: method ?? usual, url: url)
        draft.others = others
        draft.notes = notes
        if draft.others["noproxy"] != nil, draft.others["proxy"] == nil {
            draft.others.removeValue(forKey: "noproxy")
            draft.notes.append("--noproxy: left out, because no proxy is named")
        }
        addHeaders(to: &draft)
        if let user {
            let pair = user.split(separator: ":" as Character, maxSplits: 1, omittingEmptySubsequences: false)
            login = (String(pair[0]), pair.count > 1 ? String(pair[1]) : nil)
        }
        if let login { add(login, to: &draft) }
        if let signature { sign(&draft, signature) }
        if let retryTime {
            draft.others["retry"] = ["count": .number(JSONNumber(retry ?? 0)), "maxTime": retryTime]
        } else if let retry {
            draft.others["retry"] = .number(JSONNumber(retry))
        }
        addOutput(values, index, to: &draft)
        if hasBody {
            guard !isHead else {
                throw CurlCommandLine.Problem(description: "curl does not send a body with -I.")
            }
            addBody(upload, to: &draft)
        }
        draft.findVariables()
        return draft
    }

    /// Returns the URL of an upload. If the URL names a directory, the name of the file is appended.
    private static func named(_ url: String, after file: String?) -> String {
        guard let name = file?.split(separator: "/" as Character).last else { return url }
        let path = url.prefix { $0 != "?" }, query = url.dropFirst(path.count)
        let authority = path.range(of: "://").map { path[$0.upperBound...] } ?? path
        guard authority.hasSuffix("/") || !authority.contains("/") else { return url }
        return path + (authority.contains("/") ? "" : "/") + Escaping.url(String(name)) + query
    }

    private func addHeaders(to draft: inout RequestDraft) {
        func isGiven(_ name: String) -> Bool { headers.contains { $0.name.lowercased() == name.lowercased() } }
        for (name, value) in headers {
            let key = name.lowercased()
            if ["content-length", "transfer-encoding", "expect"].contains(key) {
                if value != nil, key != "expect" { draft.notes.append("-H \(name): left out; convoy frames the body") }
                continue
            }
            guard let value else {
                if ["accept", "content-type", "user-agent", "accept-encoding"].contains(key) {
                    draft.removedHeaders.append(name)
                }
                if key == "host" { draft.notes.append("-H 'Host:': left out; each request names its host") }
                continue
            }
            guard let index = draft.headers.firstIndex(where: { $0.name.lowercased() == key }) else {
                draft.headers.append((name, value))
                continue
            }
            // A manifest contains each field only once, which is equivalent for a list (RFC 9110, section 5.3).
            draft.headers[index].value += (key == "cookie" ? "; " : ", ") + value
            if ["authorization", "content-type", "host", "referer", "user-agent"].contains(key) {
                draft.notes.append("-H \(name): given several times, and sent as one field")
            }
        }
        draft.removedHeaders.removeAll { name in
            draft.headers.contains { $0.name.lowercased() == name.lowercased() }
        }
        for header in ownHeaders where !isGiven(header.name) { draft.headers.append(header) }
        if !cookies.isEmpty, !isGiven("Cookie") { draft.headers.append(("Cookie", cookies.joined(separator: ";"))) }
        if !cookies.isEmpty, isGiven("Cookie") { draft.notes.append("-b: left out; curl sends the Cookie field of -H only") }
    }

    private func add(_ login: (user: String, password: String?), to draft: inout RequestDraft) {
        let unsupported = schemes.intersection(["ntlm", "negotiate"])
        let isChallenged = schemes.contains("digest") || schemes.contains("anyauth")
        if !isChallenged, !unsupported.isEmpty, !schemes.contains("basic") {
            let names = unsupported.sorted().map { "--\($0)" }.joined(separator: ", ")
            draft.notes.append("\(names): left out, and the login with it; convoy sends logins with Basic or Digest")
            return
        }
        if !unsupported.isEmpty {
            draft.notes.append("\(unsupported.sorted().map { "--\($0)" }.joined(separator: ", ")): left out")
        }
        if headers.contains(where: { $0.name.lowercased() == "authorization" })
            || ownHeaders.contains(where: { $0.name == "Authorization" })
        {
            draft.notes.append("The login is left out; curl sends the Authorization field only")
            return
        }
        var password = login.password
        if password == nil, user != nil {
            password = RequestDraft.reference(to: "PASSWORD")
            draft.notes.append("-u '\(login.user)': curl asks for the password; give it as PASSWORD in the environment")
        }
        draft.login = (login.user, password ?? "")
        draft.isLoginChallenged = isChallenged
    }

    /// Adds the signature that the login makes. Without it, the secret key would be sent.
    private func sign(_ draft: inout RequestDraft, _ signature: String) {
        let isKnown = signature.contains("\0") || SignatureScope(signature) != nil
        guard isKnown, draft.login != nil, parts.isEmpty else {
            draft.notes.append("--aws-sigv4: left out, and the login with it")
            return draft.login = nil
        }
        draft.signature = signature
    }

    private func addOutput(_ values: [String], _ index: Int, to draft: inout RequestDraft) {
        guard index < outputs.count || namesAllOutputs else { return }
        var name = index < outputs.count ? outputs[index] : nil
        if let pattern = name {
            name = values.enumerated().reversed().reduce(pattern) {
                $0.replacing("#\($1.offset + 1)", with: $1.element)
            }
        } else {
            let path = draft.url.prefix { $0 != "?" && $0 != "#" }.split(separator: "/" as Character)
            // The first two components are the scheme and the host.
            name =
                path.count > 2 && !draft.url.hasSuffix("/") && !draft.url.contains("%00")
                ? path.last?.removingPercentEncoding : nil
            if name == nil { draft.notes.append("-O: left out; the URL has no file name") }
        }
        guard var name, name != "-", name != "/dev/null" else { return }
        if let outputDirectory { name = "\(outputDirectory)/\(name)" }
        guard name.contains("\0") || OutputPath.normalized(name) != nil else {
            return draft.notes.append("-o '\(name)': left out; an output is below the directory of convoy run -d")
        }
        draft.output = OutputPath.normalized(name) ?? name
    }

    private func addBody(_ upload: String?, to draft: inout RequestDraft) {
        let given = draft.headers.first { $0.name.lowercased() == "content-type" }?.value
        let isRemoved = draft.removedHeaders.contains { $0.lowercased() == "content-type" }
        let type = given ?? (isJSON ? "application/json" : "application/x-www-form-urlencoded")
        if isJSON, !headers.contains(where: { $0.name.lowercased() == "accept" }) {
            draft.headers.append(("Accept", "application/json"))
        }
        if let upload {
            if let file = uploadedFile(upload) {
                draft.body = .file(file)
            } else {
                draft.body = .text("")
                draft.notes.append("-T '\(upload)': standard input is left out; give file: with a path")
            }
            if given == nil, !isRemoved { draft.removedHeaders.append("Content-Type") }
            if data.isGiven || !parts.isEmpty { draft.notes.append("-d, -F: left out beside -T") }
        } else if !parts.isEmpty {
            draft.body = .multipart(parts)
            if let given, given.prefix(while: { $0 != ";" }).lowercased() != "multipart/form-data" {
                draft.notes.append("-H Content-Type: left out; parts are sent as multipart/form-data")
            }
            // The new body has a different boundary.
            draft.headers.removeAll { $0.name.lowercased() == "content-type" }
            draft.removedHeaders.removeAll { $0.lowercased() == "content-type" }
            if data.isGiven { draft.notes.append("-d: left out beside -F") }
            var names: [String] = []
            for part in parts where names.last != part.name { names.append(part.name) }
            if Set(names).count < names.count { draft.notes.append("-F: parts of one name are sent one after the other") }
        } else if let file = data.file {
            draft.body = .file(file)
            if given == nil, !isRemoved { draft.headers.append(("Content-Type", type)) }
            if !data.text.isEmpty { draft.notes.append("-d: text is left out beside the file") }
        } else {
            draft.setBody(data.text, type: isRemoved ? nil : type)
        }
    }
}
