import ConvoySupport
import Foundation

/// The user and the password with which a client presents itself to a proxy. No text that is made of it shows them.
public struct ProxyCredential: Sendable, Hashable {
    /// The user's name.
    public let user: String
    /// The password; empty if there is none.
    public let password: String

    /// A user and a password.
    public init(user: String, password: String) {
        self.user = user
        self.password = password
    }

    /// Whether both have the same bytes. (`==` of `String` takes some texts for equal that a proxy does not.)
    public static func == (one: ProxyCredential, other: ProxyCredential) -> Bool {
        one.user.isExactly(other.user) && one.password.isExactly(other.password)
    }

    /// Goes with `==`.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(ExactString(user))
        hasher.combine(ExactString(password))
    }

    /// The value of `Proxy-Authorization` for the `Basic` scheme (RFC 7617, section 2).
    var basicAuthorization: String { "Basic \(Data("\(user):\(password)".utf8).base64EncodedString())" }
}

extension ProxyCredential: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Says that there is a credential, and nothing of it.
    public var description: String { "<credential>" }
    /// The same as `description`.
    public var debugDescription: String { description }
    /// Has no children, so that `dump` shows nothing of it either.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
