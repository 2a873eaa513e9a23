/// What a status means to a cache.
enum StatusRules {
    /// Whether a response of this status may be taken for fresh without being told so (RFC 9110, section 15.1). 206 is
    /// one too, but not stored here.
    static func isHeuristicallyCacheable(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501: true
        default: false
        }
    }

    /// Whether the meaning of a status is known here, as `must-understand` demands (RFC 9111, section 5.2.2.3).
    static func isUnderstood(_ status: Int) -> Bool {
        switch status {
        case 200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410, 414, 500, 501, 502, 503, 504: true
        default: false
        }
    }

    /// Whether a status may be stored at all. 206 would have to be combined with others; 304 says something about
    /// another response. 412 and 416 are about a condition or a range that the next request may not have, 401 about
    /// credentials that may be good the next time, or have a nonce that was used, and 407 is a proxy's. Those of RFC 6585
    /// must not be stored.
    static func isStorable(_ status: Int) -> Bool {
        switch status {
        case 206, 304, 401, 407, 412, 416, 428, 429, 431, 511: false
        default: (200...599).contains(status)
        }
    }

    /// Whether a response of this status, stored or not, says that an earlier one is no longer the origin's.
    static func replaces(_ status: Int) -> Bool {
        [200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 410].contains(status)
    }

    /// Whether the origin, or somebody on the way, has failed in a way for which a stale response may stand in
    /// (RFC 5861, section 4).
    static func isFailure(_ status: Int) -> Bool { [500, 502, 503, 504].contains(status) }
}
