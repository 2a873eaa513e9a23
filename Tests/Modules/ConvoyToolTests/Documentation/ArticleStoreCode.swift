import Convoy
import Foundation
import FoundationNetworking

// The code of the article about cookies and the cache; see ArticleCode.swift.

extension ArticleCode {
    static func cookies(_ manager: HTTPRequestOperationManager, _ directory: URL) async throws -> String {
        // Article: CookiesAndCache
        manager.cookieStore = try CookieStore(file: directory.appendingPathComponent("cookies.db"))
        manager.cookieStore?.acceptanceHandler = { cookie, url in cookie.isSecure || url.scheme == "http" }
        let page: String = try await manager.get("page")
        for cookie in manager.cookieStore?.cookies ?? [] { print(cookie.name, cookie.domain, cookie.path) }
        // Article: end
        return page
    }

    static func cache(_ manager: HTTPRequestOperationManager, _ directory: URL) async throws -> HTTPRequestOperation {
        // Article: CookiesAndCache
        manager.cache = try HTTPCache(directory: directory.appendingPathComponent("responses"), diskCapacity: 512 << 20)
        let first = try manager.makeOperation(.get, "table")
        let second = try manager.makeOperation(.get, "table")
        second.addDependency(first)
        manager.enqueue([first, second])
        try await second.finished()
        print(second.cacheUse ?? "from the network", manager.cache?.hits ?? 0)
        // Article: end
        return second
    }

    static func storing(_ operation: URLConnectionOperation) {
        // Article: CookiesAndCache
        operation.cacheResponseHandler = { operation, candidate in
            guard candidate.length < 1 << 20, operation.redirects.isEmpty else { return nil }
            var candidate = candidate
            candidate.fields.removeAll { $0.name.lowercased() == "set-cookie" }
            return candidate
        }
        // Article: end
    }
}
