import ConvoySerialization
import ConvoySupport
import Foundation

/// Reads HTTP Archives (HAR 1.2), as browsers save them.
public enum ArchiveReader {
    /// Fields that the engine sets itself, or that are of one connection.
    private static let ownFields: Set<String> = [
        "host", "content-length", "connection", "accept-encoding", "keep-alive", "transfer-encoding", "te", "upgrade",
        "cookie",
    ]

    /// The requests of an archive, in their order; nil for what is no archive.
    public static func drafts(_ data: Data) -> [(name: String, draft: RequestDraft)]? {
        guard let archive = try? JSON(parsing: data), case .array(let entries)? = archive[["log", "entries"]] else {
            return nil
        }
        var drafts: [(name: String, draft: RequestDraft)] = []
        var taken: Set<String> = [], counts: [String: Int] = [:]
        for entry in entries {
            guard let draft = draft(entry) else { continue }
            let base = draft.suggestedName
            var name = base
            // One with a number may be that of another request.
            while !taken.insert(name).inserted {
                counts[base, default: 1] += 1
                name = "\(base)-\(counts[base, default: 1])"
            }
            drafts.append((name, draft))
        }
        return drafts
    }

    private static func draft(_ entry: JSON) -> RequestDraft? {
        guard case .string(let method)? = entry[["request", "method"]], case .string(let url)? = entry[["request", "url"]],
            Target(url) != nil, HTTPSyntax.isToken(method), method != "CONNECT"
        else { return nil }
        var draft = RequestDraft(method: method, url: String(url.prefix { $0 != "#" }))
        if case .array(let headers)? = entry[["request", "headers"]] {
            for header in headers {
                guard case .string(let name)? = header[["name"]], case .string(let value)? = header[["value"]] else {
                    continue
                }
                let key = name.lowercased()
                guard !ownFields.contains(key), !key.hasPrefix(":"), !key.hasPrefix("sec-") else { continue }
                if let index = draft.headers.firstIndex(where: { $0.name.lowercased() == key }) {
                    draft.headers[index].value += ", \(value)"
                } else {
                    draft.headers.append((name, value))
                }
            }
        }
        if case .string(let text)? = entry[["request", "postData", "text"]], !text.isEmpty, method != "GET", method != "HEAD"
        {
            let type = entry[["request", "postData", "mimeType"]].map(\.text) ?? ""
            if type.hasPrefix("application/json"), let json = try? JSON(parsing: Data(text.utf8)) {
                draft.body = .json(json)
            } else {
                draft.body = .text(text)
            }
        }
        if case .number(let number)? = entry[["response", "status"]], let status: Int = number.integer(),
            (100...599).contains(status), !(200...299).contains(status),
            !(300...399).contains(status)
        {
            draft.expectations["status"] = .number(JSONNumber(status))
        }
        return draft
    }
}
