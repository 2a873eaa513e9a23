import ConvoySupport
import Foundation

// The members of HAR 1.2, by their names. Those that are not of the format begin with an underscore.

extension HARLog: Encodable {
    private enum Key: String, CodingKey {
        case log, version, creator, pages, entries, name, id, title, startedDateTime, pageTimings, onLoad, pageref, time,
            request,
            response, cache, timings, serverIPAddress, connection, comment
        case cacheUse = "_cacheUse"
    }

    /// Encodes the log as the object that a file in HAR has.
    public func encode(to encoder: any Encoder) throws {
        var root = encoder.container(keyedBy: Key.self)
        var log = root.nestedContainer(keyedBy: Key.self, forKey: .log)
        try log.encode("1.2", forKey: .version)
        var creator = log.nestedContainer(keyedBy: Key.self, forKey: .creator)
        try creator.encode("Convoy", forKey: .name)
        try creator.encode("1.0", forKey: .version)
        var pages = log.nestedUnkeyedContainer(forKey: .pages)
        for page in self.pages {
            var object = pages.nestedContainer(keyedBy: Key.self)
            try object.encode(page.id, forKey: .id)
            try object.encode(page.title, forKey: .title)
            try object.encode(HARDate.text(page.startedDate), forKey: .startedDateTime)
            var timings = object.nestedContainer(keyedBy: Key.self, forKey: .pageTimings)
            try timings.encode(page.duration ?? -1, forKey: .onLoad)
        }
        var entries = log.nestedUnkeyedContainer(forKey: .entries)
        for entry in self.entries {
            var object = entries.nestedContainer(keyedBy: Key.self)
            try object.encode(entry.page, forKey: .pageref)
            try object.encode(HARDate.text(entry.startedDate), forKey: .startedDateTime)
            try object.encode(entry.timings.total, forKey: .time)
            try object.encode(entry.request, forKey: .request)
            try object.encode(entry.response, forKey: .response)
            _ = object.nestedContainer(keyedBy: Key.self, forKey: .cache)
            try object.encode(entry.timings, forKey: .timings)
            try object.encodeIfPresent(entry.serverAddress, forKey: .serverIPAddress)
            try object.encodeIfPresent(entry.connection, forKey: .connection)
            try object.encodeIfPresent(entry.cacheUse, forKey: .cacheUse)
            try object.encodeIfPresent(entry.comment, forKey: .comment)
        }
    }
}

extension HARRequest: Encodable {
    private enum Key: String, CodingKey {
        case method, url, httpVersion, cookies, headers, queryString, headersSize, bodySize, postData, mimeType, text
    }

    /// Encodes the request as HAR has it.
    public func encode(to encoder: any Encoder) throws {
        var object = encoder.container(keyedBy: Key.self)
        try object.encode(method, forKey: .method)
        try object.encode(url, forKey: .url)
        try object.encode(httpVersion, forKey: .httpVersion)
        try object.encode(cookies, forKey: .cookies)
        try object.encode(headers, forKey: .headers)
        try object.encode(queryString, forKey: .queryString)
        try object.encode(headersSize, forKey: .headersSize)
        try object.encode(bodySize, forKey: .bodySize)
        guard let bodyType else { return }
        var body = object.nestedContainer(keyedBy: Key.self, forKey: .postData)
        try body.encode(bodyType, forKey: .mimeType)
        try body.encode("", forKey: .text)
    }
}

extension HARResponse: Encodable {
    private enum Key: String, CodingKey {
        case status, statusText, httpVersion, cookies, headers, content, redirectURL, headersSize, bodySize, size, mimeType,
            compression
        case error = "_error"
    }

    /// Encodes the response as HAR has it, its content within.
    public func encode(to encoder: any Encoder) throws {
        var object = encoder.container(keyedBy: Key.self)
        try object.encode(status, forKey: .status)
        try object.encode(statusText, forKey: .statusText)
        try object.encode(httpVersion, forKey: .httpVersion)
        try object.encode(cookies, forKey: .cookies)
        try object.encode(headers, forKey: .headers)
        try object.encode(redirectURL, forKey: .redirectURL)
        try object.encode(headersSize, forKey: .headersSize)
        try object.encode(bodySize, forKey: .bodySize)
        try object.encodeIfPresent(error, forKey: .error)
        var content = object.nestedContainer(keyedBy: Key.self, forKey: .content)
        try content.encode(contentSize, forKey: .size)
        try content.encode(mimeType, forKey: .mimeType)
        if bodySize >= 0, contentSize != bodySize { try content.encode(contentSize - bodySize, forKey: .compression) }
    }
}

extension HARCookie: Encodable {
    private enum Key: String, CodingKey { case name, value, path, domain, expires, httpOnly, secure }

    /// Encodes the cookie as HAR has it.
    public func encode(to encoder: any Encoder) throws {
        var object = encoder.container(keyedBy: Key.self)
        try object.encode(name, forKey: .name)
        try object.encode(value, forKey: .value)
        try object.encodeIfPresent(path, forKey: .path)
        try object.encodeIfPresent(domain, forKey: .domain)
        try object.encodeIfPresent(expires.map(HARDate.text), forKey: .expires)
        try object.encode(isHTTPOnly, forKey: .httpOnly)
        try object.encode(isSecure, forKey: .secure)
    }
}

extension HARTimings: Encodable {
    private enum Key: String, CodingKey { case blocked, dns, connect, ssl, send, wait, receive }

    /// Encodes the timings as HAR has them, with -1 for what there was not.
    public func encode(to encoder: any Encoder) throws {
        var object = encoder.container(keyedBy: Key.self)
        try object.encode(blocked ?? -1, forKey: .blocked)
        try object.encode(dns ?? -1, forKey: .dns)
        try object.encode(connect ?? -1, forKey: .connect)
        try object.encode(ssl ?? -1, forKey: .ssl)
        try object.encode(send, forKey: .send)
        try object.encode(wait, forKey: .wait)
        try object.encode(receive, forKey: .receive)
    }
}

/// Dates as in RFC 3339, in UTC, with microseconds: what begins in the same millisecond stays in order.
enum HARDate {
    static func text(_ date: Date) -> String {
        let seconds = date.timeIntervalSince1970
        // Until the year 9999, which is what the format can write.
        guard seconds > 0, seconds < 253_402_300_800 else { return "1970-01-01T00:00:00Z" }
        let microseconds = Int64((seconds * 1e6).rounded(.down))
        let (whole, rest) = microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        var time = time_t(whole)
        var parts = tm()
        guard gmtime_r(&time, &parts) != nil else { return "1970-01-01T00:00:00Z" }
        return String(
            format: "%04d-%02d-%02dT%02d:%02d:%02d.%06lldZ", Int(parts.tm_year) + 1900, Int(parts.tm_mon) + 1,
            Int(parts.tm_mday), Int(parts.tm_hour), Int(parts.tm_min), Int(parts.tm_sec), rest)
    }
}
