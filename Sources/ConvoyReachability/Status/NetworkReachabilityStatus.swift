/// Whether there is a way to the network, and over what kind of link it begins.
///
/// The counterpart of `AFNetworkReachabilityStatus`, with its numbers. What AFNetworking calls WiFi is whatever is not
/// mobile; here a link by cable is told apart.
public enum NetworkReachabilityStatus: Int, Sendable, Hashable, CaseIterable {
    /// Not known: nobody monitors, or the first answer of the system is still to come.
    case unknown = -1
    /// There is no way.
    case notReachable = 0
    /// Over a mobile network: a modem.
    case reachableViaWWAN = 1
    /// Over a wireless LAN.
    case reachableViaWiFi = 2
    /// Over anything else: a cable, a link between virtual machines, a tunnel, or inside this machine.
    case reachableViaWire = 3

    /// Whether there is a way, of whatever kind.
    public var isReachable: Bool {
        switch self {
        case .unknown, .notReachable: false
        case .reachableViaWWAN, .reachableViaWiFi, .reachableViaWire: true
        }
    }
}

extension NetworkReachabilityStatus: CustomStringConvertible {
    /// A few words in English, such as "Reachable via WiFi": those of `AFStringFromNetworkReachabilityStatus`.
    public var description: String {
        switch self {
        case .unknown: "Unknown"
        case .notReachable: "Not Reachable"
        case .reachableViaWWAN: "Reachable via WWAN"
        case .reachableViaWiFi: "Reachable via WiFi"
        case .reachableViaWire: "Reachable via wire"
        }
    }
}
