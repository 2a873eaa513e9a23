import ConvoySerialization
import ConvoySupport
import Foundation

/// What makes requests of parameters and bodies, and values of responses.
extension HTTPRequestOperationManager {
    /// Makes requests of parameters: a query or a form by `HTTPRequestSerializer`, unless set. A
    /// `JSONRequestSerializer` sends the parameters of POST, PUT and PATCH as JSON.
    ///
    /// With a `baseURL`, its `Authorization` and other secret fields go to that origin and to the
    /// ``authorizationOrigins`` only; without one they go wherever a call leads.
    ///
    /// It can be changed in place: `manager.requestSerializer.setAuthorizationHeader(bearerToken: token)`. Of two
    /// threads that do so at once the last one wins; ``updateRequestSerializer(_:)`` loses nothing.
    public final var requestSerializer: any HTTPRequestSerialization {
        get { settings.withLock { $0.requestSerializer } }
        set { setRequestSerializer(newValue, after: nil) }
    }

    /// Validates and parses responses. `JSONResponseSerializer`, unless set.
    ///
    /// Its status codes, content types and limits hold for awaited values too. It can be changed in place:
    /// `manager.responseSerializer.acceptableContentTypes = nil`.
    public final var responseSerializer: any HTTPResponseSerialization {
        get { settings.withLock { $0.common.serializer.serializer } }
        set { setResponseSerializer(newValue, after: nil) }
    }

    /// Changes the request serializer, and loses no change that another thread makes at the same time.
    ///
    /// - Parameter update: changes a copy of the serializer. It is called again where another thread was quicker.
    /// - Throws: what the block throws; then nothing has changed.
    public final func updateRequestSerializer(
        _ update: (inout any HTTPRequestSerialization) throws -> Void
    ) rethrows {
        var isDone = false
        while !isDone {
            var (serializer, changes) = settings.withLock { ($0.requestSerializer, $0.serializerChanges) }
            try update(&serializer)
            isDone = setRequestSerializer(serializer, after: changes)
        }
    }

    /// Changes the response serializer, and loses no change that another thread makes at the same time.
    ///
    /// - Parameter update: changes a copy of the serializer. It is called again where another thread was quicker.
    /// - Throws: what the block throws; then nothing has changed.
    public final func updateResponseSerializer(
        _ update: (inout any HTTPResponseSerialization) throws -> Void
    ) rethrows {
        var isDone = false
        while !isDone {
            var (serializer, changes) = settings.withLock { ($0.common.serializer.serializer, $0.serializerChanges) }
            try update(&serializer)
            isDone = setResponseSerializer(serializer, after: changes)
        }
    }

    /// - Parameter changes: how often serializers have been set when this one was read; nil to set it all the same.
    @discardableResult
    private func setRequestSerializer(_ serializer: any HTTPRequestSerialization, after changes: Int?) -> Bool {
        let template = RequestTemplate(serializer)
        let (isSet, old) = settings.withLock { settings -> (Bool, any HTTPRequestSerialization) in
            let old = settings.requestSerializer
            guard changes == nil || changes == settings.serializerChanges else { return (false, old) }
            settings.serializerChanges &+= 1
            (settings.requestSerializer, settings.template) = (serializer, template)
            return (true, old)
        }
        // It may be the last to refer to a user's objects: not under the lock.
        withExtendedLifetime(old) {}
        return isSet
    }

    @discardableResult
    private func setResponseSerializer(_ serializer: any HTTPResponseSerialization, after changes: Int?) -> Bool {
        let facts = SerializerFacts(serializer)
        let (isSet, old) = settings.withLock { settings -> (Bool, [CommonSettings]) in
            guard changes == nil || changes == settings.serializerChanges else { return (false, []) }
            settings.serializerChanges &+= 1
            let old = settings.forgetShared() + [CommonSettings(settings.common)]
            settings.common.serializer = facts
            return (true, old)
        }
        withExtendedLifetime(old) {}
        return isSet
    }

    /// Decodes the JSON of awaited values. It can be set up in place:
    /// `manager.decoder.keyDecodingStrategy = .convertFromSnakeCase`.
    ///
    /// A plain `JSONDecoder` is asked for its strategies only: a faster decoder, with the same values and errors, does the
    /// rest. See `DecodableResponseSerializer`.
    public final var decoder: JSONDecoder {
        get { settings.withLock { $0.decoder } }
        set {
            let old = settings.withLock { settings in
                let old = (settings.decoder, settings.forgetShared())
                settings.decoder = newValue
                return old
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Encodes what the calls are given as `body`. It can be set up in place:
    /// `manager.encoder.keyEncodingStrategy = .convertToSnakeCase`.
    public final var encoder: JSONEncoder {
        get { settings.withLock { $0.encoder } }
        set {
            let old = settings.withLock { settings in
                defer { settings.encoder = newValue }
                return settings.encoder
            }
            withExtendedLifetime(old) {}
        }
    }
}
