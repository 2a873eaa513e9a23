import ConvoySupport

extension HTTPRequestSerializer: CustomStringConvertible {
    /// The names of the headers, with the values of those that are no secrets.
    public var description: String {
        let secrets = SecretClassifier.standard
        let fields = httpRequestHeaders.sorted { $0.key < $1.key }.map { "\($0.key): \(secrets.shown($0.key, $0.value))" }
        return "HTTPRequestSerializer(\(fields.joined(separator: ", ")))"
    }
}

extension HTTPRequestSerializer: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
