import ConvoySecurity

extension ConnectionConfiguration: CustomStringConvertible {
    /// The settings in a line, without what is secret: of the client's identity only whether there is one.
    public var description: String {
        var parts = ["usesHTTP2: \(usesHTTP2)", "maximumRedirects: \(maximumRedirects)"]
        if allowsRedirectToPlainText { parts.append("allowsRedirectToPlainText") }
        if !sensitiveHeaders.isEmpty { parts.append("sensitiveHeaders: \(sensitiveHeaders.sorted())") }
        if !keepsHeadersAcrossOrigins.isEmpty {
            parts.append("keepsHeadersAcrossOrigins: \(keepsHeadersAcrossOrigins.sorted())")
        }
        if sendsBodiesAcrossOrigins { parts.append("sendsBodiesAcrossOrigins") }
        if let timeoutIntervalForHead { parts.append("timeoutIntervalForHead: \(timeoutIntervalForHead)") }
        if let maximumExpansion { parts.append("maximumExpansion: \(maximumExpansion)") }
        if securityPolicy.allowInvalidCertificates { parts.append("allowInvalidCertificates") }
        if securityPolicy.isPinning { parts.append("pins: \(securityPolicy.effectivePinningMode)") }
        if networkServiceType != .default { parts.append("networkServiceType: \(networkServiceType)") }
        if !receiveRateLimits.isEmpty { parts.append("receiveRateLimits: \(Self.rates(receiveRateLimits))") }
        if !sendRateLimits.isEmpty { parts.append("sendRateLimits: \(Self.rates(sendRateLimits))") }
        if let stallLimit { parts.append("stallLimit: \(stallLimit.bytesPerSecond) in \(stallLimit.duration) s") }
        if clientIdentity != nil { parts.append("clientIdentity") }
        if identity != nil { parts.append("identity") }
        return "ConnectionConfiguration(\(parts.joined(separator: ", ")))"
    }

    /// In bytes per second.
    private static func rates(_ limits: [RateLimit]) -> String {
        "[" + limits.map { $0.bytesPerSecond.map(String.init) ?? "none" }.joined(separator: ", ") + "]"
    }
}

extension ConnectionConfiguration: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
