import ConvoyReachability
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation

/// What a manager keeps under its lock: its serializers, and what its operations have in common.
struct ManagerSettings {
    var requestSerializer: any HTTPRequestSerialization = HTTPRequestSerializer()
    /// As the user has set them; ``CommonSettings/Values/authorizedTargets`` has what they lead to.
    var authorizationOrigins: Set<URL> = []
    /// What most requests are made of, if the serializer is one that allows it.
    var template: RequestTemplate? = RequestTemplate(HTTPRequestSerializer())
    /// What the operations have in common; the transport is that of the thread whose turn it is.
    var common: CommonSettings.Values
    /// The same as objects that operations share, one for each thread; empty after a change.
    var shared: [CommonSettings] = []
    var threads = [NetworkThread.shared]
    /// What the operations travel over in place of the threads.
    var transport: (any Transport)?
    var nextThread = 0
    var operationQueue: OperationQueue
    var handlers = InheritedHandlers()
    var reachabilityManager = NetworkReachabilityManager.shared
    var decoder = JSONDecoder()
    var encoder = JSONEncoder()
    /// How often a serializer has been set.
    var serializerChanges = 0

    /// The same for values of a type that are awaited, by the type.
    var awaiting: [ObjectIdentifier: [CommonSettings]] = [:]

    /// The settings of the next operation.
    mutating func settingsOfNextOperation() -> CommonSettings {
        if shared.isEmpty { shared = settingsForThreads { _ in } }
        nextThread = (nextThread + 1) % shared.count
        return shared[nextThread]
    }

    /// The settings of the next operation whose value is awaited.
    mutating func settingsOfNextOperation<Value>(awaiting type: Value.Type) -> CommonSettings
    where Value: Decodable & Sendable {
        let key = ObjectIdentifier(type)
        let decoder = decoder
        let settings = awaiting[key] ?? settingsForThreads { $0.await(type, decoder: decoder) }
        awaiting[key] = settings
        nextThread = (nextThread + 1) % settings.count
        return settings[nextThread]
    }

    private func settingsForThreads(_ change: (inout CommonSettings.Values) -> Void) -> [CommonSettings] {
        (transport.map { [$0] } ?? threads).map { transport in
            var values = common
            values.transport = transport
            change(&values)
            return CommonSettings(values)
        }
    }

    /// The settings have changed. Returns what to let go of.
    mutating func forgetShared() -> [CommonSettings] {
        defer { (shared, awaiting) = ([], [:]) }
        return shared + awaiting.values.joined()
    }
}
