import ConvoySerialization
import Foundation

extension RequestDraft {
    /// Gives each request a unique name, derived from its method and path.
    static func named(_ drafts: [RequestDraft]) -> [(name: String, draft: RequestDraft)] {
        var taken: Set<String> = [], counts: [String: Int] = [:]
        return drafts.map { draft in
            let base = draft.suggestedName
            var name = base
            // A different request may already have the numbered name.
            while !taken.insert(name).inserted {
                counts[base, default: 1] += 1
                name = "\(base)-\(counts[base, default: 1])"
            }
            return (name, draft)
        }
    }

    /// The error that `convoy check` reports for a manifest with this request; nil if the manifest is valid. A missing
    /// file is mentioned in a note instead, because the manifest may be intended for another directory.
    var failure: String? {
        mutating get {
            var inputs = WorkflowInputs(environment: [:])
            for name in variables { inputs.environment[name] = "x" }
            do throws(ManifestError) {
                _ = try Workflow(parsing: Data(Self.manifest([("request", self)]).utf8), name: "manifest", inputs: inputs)
                return nil
            } catch {
                guard error.message.hasPrefix("cannot read ") else { return error.message }
                notes.append(error.message)
                return nil
            }
        }
    }

    /// Sets the login that is sent if the server requests it.
    ///
    /// - Parameter text: `NAME:PASSWORD`, or `NAME` if the run takes the password from PASSWORD in its environment.
    package mutating func setChallengedLogin(_ text: String) {
        let pair = text.split(separator: ":" as Character, maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        isLoginChallenged = true
        guard pair.count < 2 else { return login = (pair[0], pair[1]) }
        login = (pair[0], Self.reference(to: "PASSWORD"))
        variables.insert("PASSWORD")
        secretVariables.append("PASSWORD")
        notes.append("the password of \(pair[0]): give it as PASSWORD in the environment of convoy run")
    }

    /// Finds the references of the draft, and adds a note for each variable.
    mutating func findVariables() {
        var texts =
            [method, url, login?.user ?? "", login?.password ?? "", output ?? "", signature ?? ""] + headers.map(\.value)
        switch body {
        case nil, .json?: break
        case .form(let items)?: texts += items.map(\.value)
        case .text(let text)?, .file(let text)?: texts.append(text)
        case .multipart(let parts)?: texts += parts.flatMap { [$0.value, $0.fileName ?? ""] }
        }
        for text in texts where text.contains("\0") {
            let words = text.split(separator: "\0" as Character, omittingEmptySubsequences: false)
            for (index, name) in words.enumerated() where index % 2 == 1 && ShellWords.isName(String(name)) {
                guard variables.insert(String(name)).inserted, name != "PASSWORD" else { continue }
                notes.append("$\(name) of the command: give \(name) in the environment of convoy run")
            }
        }
    }
}
