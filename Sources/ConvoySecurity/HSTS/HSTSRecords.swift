import ConvoySupport
import Foundation

/// The known hosts, as a value without I/O.
struct HSTSRecords: Equatable {
    private(set) var records: [String: HSTSRecord] = [:]
    /// The maximum number of hosts.
    var limit: Int

    init(limit: Int = .max) { self.limit = limit }

    /// Returns whether a host requires TLS, because of its own policy or that of a parent domain that includes
    /// subdomains (RFC 6797, section 8.2).
    ///
    /// - Parameters:
    ///   - host: A name returned by ``HSTSRecords/name(of:)``.
    ///   - now: The current time, in seconds since 1970.
    func requiresTLS(_ host: String, at now: Int64) -> Bool {
        guard !records.isEmpty else { return false }
        if let record = records[host], isValid(record, now) { return true }
        var rest = host[...]
        while let dot = rest.firstIndex(of: ".") {
            rest = rest[rest.index(after: dot)...]
            if let record = records[String(rest)], record.includesSubdomains, isValid(record, now) { return true }
        }
        return false
    }

    private func isValid(_ record: HSTSRecord, _ now: Int64) -> Bool { !record.isWithdrawn && record.expires > now }

    /// Updates the record of a host. Returns whether the change is worth saving.
    mutating func note(_ policy: StrictTransportSecurity, of host: String, at milliseconds: Int64) -> Bool {
        let now = milliseconds / 1000
        let old = records[host]
        if policy.maximumAge == 0 {
            guard var old, isValid(old, now) else { return false }
            old.isWithdrawn = true
            old.noted = max(milliseconds, old.noted + 1)
            records[host] = old
            return true
        }
        let new = HSTSRecord(
            includesSubdomains: policy.includesSubdomains, expires: now + policy.maximumAge,
            noted: max(milliseconds, (old?.noted ?? 0) + 1))
        records[host] = new
        makeRoom(at: now)
        // A busy host sends its policy with each response. If the new expiry is within a minute of the old one, the
        // change is not saved.
        guard let old, !old.isWithdrawn else { return true }
        return old.includesSubdomains != new.includesSubdomains || abs(old.expires - new.expires) > 60
    }

    /// Withdraws the policy of a host at the program's request.
    mutating func withdraw(_ host: String, at milliseconds: Int64) {
        guard var record = records[host] else { return }
        record.isWithdrawn = true
        record.noted = max(milliseconds, record.noted + 1)
        records[host] = record
    }

    /// Adds the records that are newer in another process.
    mutating func merge(_ other: HSTSRecords, at now: Int64) {
        for (host, record) in other.records where (records[host]?.noted ?? .min) < record.noted { records[host] = record }
        records = records.filter { $0.value.expires > now }
        makeRoom(at: now)
    }

    mutating func insert(_ record: HSTSRecord, _ host: String) { records[host] = record }

    /// Returns the hosts with a valid policy, sorted by name.
    func hosts(at now: Int64) -> [HSTSHost] {
        records.filter { isValid($0.value, now) }
            .map {
                HSTSHost(
                    name: $0.key, includesSubdomains: $0.value.includesSubdomains,
                    expires: Date(timeIntervalSince1970: TimeInterval($0.value.expires)))
            }
            .sorted { $0.name < $1.name }
    }

    /// Removes an eighth of the hosts if there are too many: first expired hosts, then hosts of the largest domain, so
    /// that a domain with many names cannot displace others.
    private mutating func makeRoom(at now: Int64) {
        guard records.count > limit else { return }
        let target = limit - limit / 8
        records = records.filter { $0.value.expires > now }
        guard records.count > target else { return }
        var domains = Dictionary(grouping: records, by: { Self.domain(of: $0.key) })
            .map { $0.value.sorted { ($0.value.noted, $0.key) > ($1.value.noted, $1.key) } }
        var surplus = records.count - target
        while surplus > 0 {
            // Remove hosts from the largest domain until it is no longer the largest, starting with the oldest records.
            domains.sort { $0.count > $1.count }
            let next = domains.count > 1 ? domains[1].count : 0
            let count = min(surplus, max(1, domains[0].count - next))
            for record in domains[0].suffix(count) { records[record.key] = nil }
            domains[0].removeLast(count)
            surplus -= count
        }
    }

    /// Returns the last two labels of a host.
    private static func domain(of host: String) -> String {
        host.split(separator: ".").suffix(2).joined(separator: ".")
    }

    /// Returns the key for a host, or nil for an IP address, which cannot have an HSTS policy (RFC 6797, section
    /// 8.1.1), and for an invalid name.
    static func name(of host: String) -> String? {
        guard let name = HostName(host), case .name(let text) = name.kind else { return nil }
        return text
    }
}

/// A host that requires TLS (RFC 6797, section 5.3).
public struct HSTSHost: Sendable, Hashable {
    /// The name in lower case, without a trailing dot.
    public let name: String
    /// Whether the policy includes all subdomains.
    public let includesSubdomains: Bool
    /// The time at which the policy expires, unless the host renews it.
    public let expires: Date
}

/// A host's policy, as kept in a store.
struct HSTSRecord: Equatable {
    var includesSubdomains: Bool
    /// The expiry, in seconds since 1970.
    var expires: Int64
    /// The time at which the host sent the policy, in milliseconds since 1970. If two processes have different records,
    /// the later one is used.
    var noted: Int64
    /// Whether the host has withdrawn the policy. The record is kept until the old policy would have expired, so that
    /// the copy of another process does not restore the policy.
    var isWithdrawn = false
}

/// The value of a `Strict-Transport-Security` field (RFC 6797, section 6.1).
struct StrictTransportSecurity: Equatable {
    /// The `max-age`, in seconds; 0 withdraws the policy.
    var maximumAge: Int64
    var includesSubdomains: Bool

    /// The maximum `max-age`, some three hundred years. Larger values are clamped.
    private static let longest: Int64 = 10_000_000_000

    /// Parses a field value. Returns nil if it violates the grammar or lacks `max-age`, for example because of a
    /// repeated directive, or a superfluous or missing value. Unknown directives are skipped.
    init?(_ value: String) {
        var names: Set<String> = []
        var age: Int64?
        includesSubdomains = false
        var rest = Array(value.utf8)[...]
        while true {
            guard let end = HTTPSyntax.firstSeparator(";", in: rest) else { return nil }
            let directive = ASCII.trimmed(rest[..<end])
            if !directive.isEmpty {
                guard let (name, value) = Self.parts(of: directive), names.insert(name).inserted else { return nil }
                switch name {
                case "max-age":
                    guard let value, let seconds = Self.seconds(value) else { return nil }
                    age = seconds
                case "includesubdomains":
                    guard value == nil else { return nil }
                    includesSubdomains = true
                default: break
                }
            }
            guard end < rest.endIndex else { break }
            rest = rest[(end + 1)...]
        }
        guard let age else { return nil }
        maximumAge = age
    }

    /// Returns the name of a directive in lower case, and its value without quotes.
    private static func parts(of directive: ArraySlice<UInt8>) -> (name: String, value: [UInt8]?)? {
        let equals = directive.firstIndex(of: UInt8(ascii: "=")) ?? directive.endIndex
        let name = ASCII.text(ASCII.trimmed(directive[..<equals])[...]).lowercased()
        guard HTTPSyntax.isToken(name) else { return nil }
        guard equals < directive.endIndex else { return (name, nil) }
        var value = ASCII.trimmed(directive[(equals + 1)...])
        guard value.first == UInt8(ascii: "\"") else {
            return HTTPSyntax.isToken(ASCII.text(value[...])) ? (name, Array(value)) : nil
        }
        let content = HTTPSyntax.quotedString(&value)
        return content.isClosed && value.isEmpty ? (name, content.text) : nil
    }

    /// Parses a number of seconds, and clamps it to `longest`.
    private static func seconds(_ digits: [UInt8]) -> Int64? {
        guard !digits.isEmpty, digits.allSatisfy(ASCII.isDigit) else { return nil }
        var value: Int64 = 0
        for digit in digits { value = min(longest, value * 10 + Int64(digit - UInt8(ascii: "0"))) }
        return value
    }
}
