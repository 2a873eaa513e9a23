import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// The redirect rules (RFC 9110, section 15.4, and "HTTP-redirect fetch" of the Fetch standard), without I/O.
struct RedirectRules {
    /// The maximum number of redirects.
    let limit: Int
    let allowsPlainText: Bool
    private let secrets: SecretClassifier
    /// The fields that are also sent to other origins, in lowercase.
    private let keptFields: Set<String>
    private let sendsBodiesAcrossOrigins: Bool

    /// A closure that upgrades a target to https if its host requires TLS.
    var upgrade: (URL) -> URL = { $0 }

    init(_ configuration: ConnectionConfiguration) {
        limit = max(0, configuration.maximumRedirects)
        allowsPlainText = configuration.allowsRedirectToPlainText
        secrets = configuration.secrets
        keptFields = Set(configuration.keepsHeadersAcrossOrigins.map { $0.lowercased() })
        sendsBodiesAcrossOrigins = configuration.sendsBodiesAcrossOrigins
    }

    /// Returns whether a status is a redirect, provided that the response has a `Location`.
    static func isRedirect(_ statusCode: Int) -> Bool {
        switch statusCode {
        case 301, 302, 303, 307, 308: true
        default: false
        }
    }

    /// The decision about a response with a redirect status.
    enum Verdict {
        /// The response has no `Location`, so it is the final response.
        case noRedirect
        case follow(Redirect)
        case refuse(RedirectEvent, RedirectEvent.Refusal)

        /// The event to report if the redirect is delivered as the response; nil if the response is not a redirect.
        var eventAsResponse: RedirectEvent? {
            switch self {
            case .noRedirect: return nil
            case .follow(let redirect): return redirect.event(sending: nil)
            case .refuse(var event, _):
                event.outcome = .keptAsResponse
                return event
            }
        }
    }

    /// - Parameter followed: The number of redirects followed so far.
    func evaluate(_ response: ResponseHead, to request: URLRequest, followed: Int) -> Verdict {
        // Use the bytes. Those that are not ASCII are sent back unchanged, because their encoding is unknown.
        let locations = response.bytes(of: "Location")
        guard let location = locations.first else { return .noRedirect }
        let (method, reason) = Self.method(after: response.statusCode, of: request.httpMethod ?? "GET")
        let hasBody = request.httpBody?.isEmpty == false || request.httpBodyStream != nil
        let keepsBody = method == request.httpMethod ?? "GET"
        var event = RedirectEvent(
            statusCode: response.statusCode, from: response.url, to: nil, previousMethod: request.httpMethod ?? "GET",
            method: method, methodReason: reason, body: !hasBody ? .none : keepsBody ? .sentAgain : .dropped,
            removedFields: [], outcome: .followed, secrets: secrets)
        func refuse(_ refusal: RedirectEvent.Refusal) -> Verdict {
            event.outcome = .refused(refusal)
            return .refuse(event, refusal)
        }

        guard locations.allSatisfy({ $0 == location }) else { return refuse(.conflictingLocations) }
        guard followed < limit else {
            event.to = URLReference.url(location, relativeTo: response.url)?.withoutUserInfo
            return refuse(.tooManyRedirects(limit: limit))
        }
        // Parsers handle control characters differently: some drop them, others encode them, so one parser may find a
        // path where another finds a host.
        guard !location.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
            return refuse(.controlCharacterInLocation)
        }
        guard !location.isEmpty, let place = URLReference.url(location, relativeTo: response.url) else {
            return refuse(.unreadableLocation)
        }
        let target = upgrade(place)
        event.to = target.withoutUserInfo
        do throws(HTTPAddress.Problem) {
            let address = try HTTPAddress.reading(target.absoluteString)
            if address.hasUserInfo { return refuse(.credentialsInLocation) }
            let leavesTLS = !address.target.isSecure && Target(response.url)?.isSecure == true
            if leavesTLS, !allowsPlainText { return refuse(.plainText) }
        } catch {
            if case .otherScheme(let scheme) = error { return refuse(.unsupportedScheme(scheme)) }
            return refuse(.unreadableLocation)
        }

        var next = request
        next.url = Self.inheritingFragment(target, of: response.url)
        event.to = next.url
        if !keepsBody {
            next.httpMethod = method
            next.httpBody = nil
            next.httpBodyStream = nil
        }
        let step = RedirectStep(from: response.url, to: target, keepsBody: keepsBody)
        (event.removedFields, event.shortensReferer) = removeFields(of: &next, step)
        let isWithheld = hasBody && keepsBody && step.leavesOrigin && !step.isUpgrade && !sendsBodiesAcrossOrigins
        return .follow(
            Redirect(response: response, request: next, event: event, bodyConsent: isWithheld ? .init() : nil))
    }

    // MARK: Implementation

    private static func method(after status: Int, of method: String) -> (String, RedirectEvent.MethodReason) {
        switch status {
        case 303: (method == "HEAD" ? "HEAD" : "GET", .seeOther)
        case 301, 302: method == "POST" ? ("GET", .postBecomesGet) : (method, .keptAsNotPost)
        default: (method, .keptByStatus)
        }
    }

    /// The origins of a redirect and of its target.
    fileprivate struct RedirectStep {
        let target: URL
        let leavesOrigin: Bool
        /// Whether the redirect leads from http to https on the same host, at the standard ports. The origin differs,
        /// but the recipient is the same.
        let isUpgrade: Bool
        let keepsBody: Bool

        init(from base: URL, to target: URL, keepsBody: Bool) {
            let scope = SecretScope(of: base)
            let new = Target(target)
            self.target = target
            self.keepsBody = keepsBody
            leavesOrigin = !scope.mayReceiveSecrets(new)
            isUpgrade = scope.includesUpgrade(to: new)
        }
    }

    fileprivate func removeFields(
        of request: inout URLRequest, _ step: RedirectStep
    ) -> (removed: [RedirectEvent.RemovedField], shortensReferer: Bool) {
        var removed: [RedirectEvent.RemovedField] = []
        var shortensReferer = false
        for (name, value) in request.allHTTPHeaderFields ?? [:] {
            guard let reason = reason(toRemove: name.lowercased(), value, step) else { continue }
            // Other origins may receive the origin part of a `Referer`.
            if reason == .revealingReferer, let origin = Self.origin(ofReferer: value, for: step.target) {
                guard !origin.utf8.elementsEqual(value.utf8) else { continue }
                request.setValue(origin, forHTTPHeaderField: name)
                shortensReferer = true
            } else {
                request.setValue(nil, forHTTPHeaderField: name)
                removed.append(.init(name: name, reason: reason))
            }
        }
        return (removed.sorted { $0.name < $1.name }, shortensReferer)
    }

    /// - Parameter name: The name in lowercase.
    private func reason(
        toRemove name: String, _ value: String, _ step: RedirectStep
    ) -> RedirectEvent.RemovedField.Reason? {
        if step.leavesOrigin, name == "host" { return .namesOtherOrigin }
        if !step.keepsBody, Self.describesBody(name) { return .describesBody }
        guard name != "referer" else {
            let staysWhole = !step.leavesOrigin || keptFields.contains(name)
            return staysWhole && !Self.isRevealing(value, for: step.target) ? nil : .revealingReferer
        }
        guard step.leavesOrigin, !keptFields.contains(name) else { return nil }
        // Challenges are response fields, but some clients send them back.
        let isSecret = name == "www-authenticate" || !secrets.shown(name, value).utf8.elementsEqual(value.utf8)
        if isSecret { return .secretOfOtherOrigin }
        return step.isUpgrade || SecretClassifier.isHarmless(name) ? nil : .notKnownToBeHarmless
    }

    /// Returns whether a field is meaningless without the body (RFC 9110, section 15.4, step 5).
    private static func describesBody(_ name: String) -> Bool {
        name.hasPrefix("content-")
            || ["digest", "repr-digest", "last-modified", "expect", "trailer", "transfer-encoding"].contains(name)
    }

    private static func isRevealing(_ referer: String, for target: URL) -> Bool {
        if URLUserInfo.isPresent(in: referer) { return true }
        return Target(target)?.isSecure != true && Target(referer)?.isSecure == true
    }

    /// Returns the part of a `Referer` that another origin may receive; nil for none.
    private static func origin(ofReferer referer: String, for target: URL) -> String? {
        guard !isRevealing(referer, for: target), let origin = Target(referer) else { return nil }
        return "\(origin)/"
    }

    /// Returns the target, which inherits the fragment unless it has its own (RFC 9110, section 10.2.2).
    private static func inheritingFragment(_ target: URL, of base: URL) -> URL {
        guard target.fragment == nil, let fragment = base.fragment else { return target }
        return URLReference.url("#\(fragment)", relativeTo: target) ?? target
    }
}

extension ConnectionConfiguration {
    /// Removes the fields that a redirect would remove, from a request that was made for one URL but is sent to a
    /// different one.
    package func removeSecrets(of request: inout URLRequest, madeFor base: URL) {
        guard let target = request.url else { return }
        let step = RedirectRules.RedirectStep(from: base, to: target, keepsBody: true)
        _ = RedirectRules(self).removeFields(of: &request, step)
    }
}

/// A redirect (RFC 9110, section 15.4) and the request that follows it. A value without I/O.
package struct Redirect: Sendable {
    /// The response that redirects.
    package let response: ResponseHead
    /// The request that follows the redirect.
    ///
    /// If the origin (scheme, host, port) changed, the request lacks `Host`, secrets, and fields that are not known to
    /// be harmless; see `ConnectionConfiguration.keepsHeadersAcrossOrigins`. Removed fields stay removed, even if a
    /// later redirect leads back to the first origin.
    package var request: URLRequest
    /// The decision and the reasons for it.
    package let event: RedirectEvent
    /// The user's consent, without which the request's body must not be sent to the other origin; nil if none is
    /// required.
    package let bodyConsent: BodyConsent?

    init(response: ResponseHead, request: URLRequest, event: RedirectEvent, bodyConsent: BodyConsent? = nil) {
        self.response = response
        self.request = request
        self.event = event
        self.bodyConsent = bodyConsent
    }

    /// The user's consent to sending a body to another origin.
    package final class BodyConsent: Sendable {
        private let isGiven = Atomic(false)

        /// Records that the request is the user's own decision.
        package func give() { isGiven.store(true, ordering: .releasing) }

        fileprivate var wasGiven: Bool { isGiven.load(ordering: .acquiring) }
    }

    /// Returns whether a request must not be sent because its body is not meant for its target.
    func withholdsBody(of request: URLRequest) -> Bool {
        guard let bodyConsent, !bodyConsent.wasGiven else { return false }
        return request.httpBody?.isEmpty == false || request.httpBodyStream != nil
    }

    /// Returns the event to report if the given request is sent. If the request is nil, the event reports that the
    /// redirect is delivered as the response.
    func event(sending answer: URLRequest?) -> RedirectEvent {
        var event = event
        guard let answer else {
            event.outcome = .keptAsResponse
            return event
        }
        // Compare the header fields explicitly, because `==` on requests ignores them.
        guard
            answer.url != request.url || answer.httpMethod != request.httpMethod
                || answer.allHTTPHeaderFields != request.allHTTPHeaderFields
        else { return event }
        event.outcome = .changedByHandler
        event.to = answer.url?.withoutUserInfo
        if let method = answer.httpMethod, method != event.method {
            event.method = method
            event.methodReason = .chosenByHandler
        }
        event.removedFields.removeAll { answer.value(forHTTPHeaderField: $0.name) != nil }
        return event
    }
}

extension Redirect: CustomStringConvertible {
    /// The event's description, which contains no secrets.
    package var description: String { event.description }
}

extension Redirect: OpaqueReflectable {}
