/// How often servers have refused the credentials of one operation: a value.
struct RefusalCounts: Sendable {
    private struct Realm: Hashable {
        let server: AuthenticatingServer
        let name: String?

        init(_ space: ProtectionSpace) { (server, name) = (space.server, space.realm) }
    }

    private var spaces: [ProtectionSpace: Int] = [:]
    private var realms: Set<Realm> = []
    /// How often a server has answered a credential by asking for another realm.
    private var evasions: [AuthenticatingServer: Int] = [:]

    /// So many realms may be on the way of one request; a server that asks for more is one that makes them up.
    private static let mostEvasions = 2

    /// Notes that a server has refused what was sent for a space.
    ///
    /// - Parameter offered: the realms that it asks for now. Where that of the space is not among them, what was sent may
    ///   be right elsewhere.
    mutating func note(_ space: ProtectionSpace, offering offered: [String?]) {
        if offered.contains(space.realm) {
            spaces[space, default: 0] += 1
            realms.insert(Realm(space))
        } else {
            evasions[space.server, default: 0] += 1
        }
    }

    /// How often a space was answered in vain. Where a server asks for one realm after the other, all of them count.
    func count(in space: ProtectionSpace) -> Int {
        let evaded = evasions[space.server] ?? 0
        return (spaces[space] ?? 0) + (evaded > Self.mostEvasions ? evaded : 0)
    }

    /// Whether a credential for the space was refused, by whichever method: a weaker one is not tried after a stronger
    /// one, without being told to.
    func isRefused(_ space: ProtectionSpace) -> Bool { realms.contains(Realm(space)) || count(in: space) > 0 }
}
