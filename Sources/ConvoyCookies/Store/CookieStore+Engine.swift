import ConvoySupport
import Foundation

/// What requests and responses need.
extension CookieStore {
    /// The value of the `Cookie` field of a request; nil for none. What is not UTF-8 is decoded as Latin-1: to give the
    /// server back what it sent, ``fieldBytes(for:)`` is needed then.
    package func field(for request: CookieRequest) -> String? {
        fieldBytes(for: request).map { ASCII.text($0[...]) }
    }

    /// The value of the `Cookie` field of a request, with the bytes that the server sent; nil for none (RFC 6265bis,
    /// section 5.8.3).
    package func fieldBytes(for request: CookieRequest) -> [UInt8]? {
        let cookies = cookies(for: request)
        guard !cookies.isEmpty else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(cookies.reduce(0) { $0 + $1.nameBytes.count + $1.valueBytes.count + 3 })
        for cookie in cookies {
            if !bytes.isEmpty { bytes += [UInt8(ascii: ";"), UInt8(ascii: " ")] }
            if !cookie.nameBytes.isEmpty {
                bytes += cookie.nameBytes
                bytes.append(UInt8(ascii: "="))
            }
            bytes += cookie.valueBytes
        }
        return bytes
    }

    /// Stores what the `Set-Cookie` fields of a response say, without asking the acceptance handler. Neither blocks nor
    /// runs code of the user.
    package func take(_ fields: [[UInt8]], from place: CookiePlace, url: URL) {
        for field in fields { _ = result(of: field, from: place) { _ in true } }
    }

    /// The same, but asks the acceptance handler, on this thread.
    package func takeAsking(_ fields: [[UInt8]], from place: CookiePlace, url: URL) {
        let handler = acceptanceHandler
        for field in fields { _ = result(of: field, from: place) { handler?($0, url) ?? true } }
    }

    /// Why the cookie of a field is not stored; nil if it is. One that has expired counts as stored.
    func result(of field: [UInt8], from place: CookiePlace, _ accepts: (Cookie) -> Bool) -> CookieRefusal? {
        let now = now()
        do throws(CookieRefusal) {
            let cookie = try CookieRules.cookie(SetCookieField(field), from: place, at: now)
            guard accepts(cookie) else { return .refusedByHandler }
            var refusal: CookieRefusal?
            change { state in
                do throws(CookieRefusal) {
                    return try state.insert(cookie, isOverTLS: place.isSecure, keepsCreation: false, at: now)
                } catch {
                    refusal = error
                    return false
                }
            }
            return refusal
        } catch {
            return error
        }
    }
}
