import CEpoll
import ConvoySupport
import Foundation

/// What the system's resolver says of a name.
enum NameLookup: Equatable, Sendable {
    case addresses([HostAddress])
    /// There is no such name.
    case doesNotExist
    /// Nobody could tell.
    case failure

    /// Asks it, which may take many seconds.
    init(_ name: String) {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(name, nil, &hints, &list)
        guard code == 0 else {
            self = code == EAI_NONAME ? .doesNotExist : .failure
            return
        }
        defer { freeaddrinfo(list) }
        var addresses: [HostAddress] = []
        var next = list
        while let entry = next {
            if let address = entry.pointee.ai_addr.flatMap({ HostAddress($0) }) { addresses.append(address) }
            next = entry.pointee.ai_next
        }
        self = addresses.isEmpty ? .doesNotExist : .addresses(addresses)
    }
}
