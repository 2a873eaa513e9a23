import ConvoySupport
import Foundation

/// What the transport asks of a store.
extension CookieStore: CookieKeeper {
    package func field(for target: CookieTarget, site: URL?, isSafeMethod: Bool) -> [UInt8]? {
        fieldBytes(for: CookieRequest(place: CookiePlace(target), site: site, isSafeMethod: isSafeMethod))
    }

    package func take(_ fields: [[UInt8]], from target: CookieTarget, url: URL) {
        take(fields, from: CookiePlace(target), url: url)
    }

    package func takeAsking(_ fields: [[UInt8]], from target: CookieTarget, url: URL) {
        takeAsking(fields, from: CookiePlace(target), url: url)
    }
}

extension CookiePlace {
    fileprivate init(_ target: CookieTarget) {
        self.init(host: target.host, path: target.path, isSecure: target.isSecure)
    }
}
