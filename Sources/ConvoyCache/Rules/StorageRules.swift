import ConvoySupport
import Foundation

/// Whether a response is stored, and what it makes of responses that are stored already.
enum StorageRules {
    /// Whether the response to a request may and should be stored (RFC 9111, section 3).
    ///
    /// Only responses to GET are. One that could never be used again, since it is stale from the start and cannot be
    /// validated, is not.
    static func isStorable(_ request: RequestFacts, _ head: CachedHead, _ facts: ResponseFacts) -> Bool {
        let status = head.statusCode
        guard request.method == .get, !request.hasBody, !request.directives.noStore, StatusRules.isStorable(status)
        else { return false }
        let directives = facts.directives
        if directives.mustUnderstand {
            // It replaces `no-store` for who knows what the status means (section 5.2.2.3).
            guard StatusRules.isUnderstood(status) else { return false }
        } else if directives.noStore {
            return false
        }
        let isExplicit =
            directives.maxAge != nil || directives.isPublic || directives.isPrivate || !facts.isHeuristic
        guard isExplicit || StatusRules.isHeuristicallyCacheable(status) else { return false }
        let staysUseful =
            facts.lifetime > 0 || (directives.staleWhileRevalidate ?? 0) > 0 || (directives.staleIfError ?? 0) > 0
        return facts.hasValidator || (staysUseful && !directives.noCache)
    }

    /// Whether a 304 speaks of a stored response (section 4.3.4): a strong validator must be the stored one. Without
    /// one, the answer to the cache's own question can only mean the response that was asked about.
    static func confirms(_ head: CachedHead, _ record: CacheRecord) -> Bool {
        guard let etag = head.fields.first("etag"), EntityTag.isStrong(etag), let stored = record.facts.etag
        else { return true }
        return EntityTag.matchesWeakly(etag, stored)
    }

    /// Whether a 304 to the client's own condition, or the head that HEAD gave, speaks of a stored response: all
    /// validators that it has must be the stored ones, and the length, too (section 4.3.5).
    static func describes(_ head: CachedHead, _ record: CacheRecord, needsValidator: Bool) -> Bool {
        let etag = head.fields.first("etag")
        let changed = head.fields.first("last-modified")
        if needsValidator, etag == nil, changed == nil { return false }
        if let etag, !ExactText.equal(etag, record.facts.etag) { return false }
        if let changed, !ExactText.equal(changed, record.facts.lastModified) { return false }
        guard head.statusCode == 200, let length = head.fields.first("content-length") else { return true }
        return length == record.head.fields.first("content-length") ?? String(record.length)
    }

    /// The addresses whose stored responses a response makes invalid (section 4.4): its own after an unsafe request that
    /// has not failed, and those of the same origin that it names.
    static func invalidated(by head: CachedHead, to request: RequestFacts) -> [String] {
        guard request.method == .unsafe, (200...399).contains(head.statusCode) else { return [] }
        let own = request.address
        var addresses = [own]
        // Of each one: a server that names ten thousand does not get them all looked up.
        for value in [head.fields.first("location"), head.fields.first("content-location")].compactMap(\.self) {
            guard let base = URL(string: own), let url = URL(string: value, relativeTo: base) else { continue }
            let address = CacheAddress.normalized(url.absoluteString)
            if Target.isSame(url, base), !addresses.contains(address) {
                addresses.append(address)
            }
        }
        return addresses
    }
}
