import Foundation
import FoundationNetworking

/// The credentials of one place, one for each user.
struct UserCredentials {
    /// The last one was set last. There are few: hardly anybody is more than one user of a server.
    private var all: [(user: String, credential: URLCredential)] = []
    private var defaultUser: String?

    var byUser: [String: URLCredential] { Dictionary(all.map { ($0.user, $0.credential) }) { $1 } }

    /// The one to try first; nil if there is none.
    var first: URLCredential? { defaultUser.flatMap { self[$0] } ?? all.last?.credential }

    subscript(user: String) -> URLCredential? { all.first { $0.user == user }?.credential }

    mutating func insert(_ credential: URLCredential, of user: String, asDefault: Bool) {
        all.removeAll { $0.user == user }
        all.append((user, credential))
        if asDefault { defaultUser = user }
    }

    mutating func remove(_ user: String) {
        all.removeAll { $0.user == user }
        if defaultUser == user { defaultUser = nil }
    }
}
