import Foundation

/// A token that lets its bearer in (RFC 6750). It is never printed.
public struct AccessToken: Sendable, Hashable {
    /// What is sent behind `Bearer`: letters, digits and `-._~+/`, with `=` at the end.
    public var value: String
    /// When it ends; nil if that is not known. It is refreshed before that.
    public var expires: Date?
    /// What a new one can be had for. For your own use.
    public var refreshToken: String?

    /// A token, with its end as a time.
    public init(_ value: String, expires: Date? = nil, refreshToken: String? = nil) {
        (self.value, self.expires, self.refreshToken) = (value, expires, refreshToken)
    }

    /// A token that is good for so many seconds from now: `expires_in` of RFC 6749, section 5.1.
    public init(_ value: String, expiresIn seconds: TimeInterval, refreshToken: String? = nil) {
        self.init(value, expires: Date(timeIntervalSinceNow: seconds), refreshToken: refreshToken)
    }
}

extension AccessToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Without the token.
    public var description: String { "AccessToken(***\(expires.map { ", expires: \($0)" } ?? ""))" }
    /// Without the token.
    public var debugDescription: String { description }
    /// Without the token.
    public var customMirror: Mirror { Mirror(self, children: ["expires": expires as Any]) }
}
