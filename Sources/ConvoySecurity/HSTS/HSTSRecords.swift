import Foundation

/// The known hosts, without I/O.
struct HSTSRecords: Equatable {
    private(set) var records: [String: HSTSRecord] = [:]
    /// How many there may be.
    var limit: Int

    init(limit: Int = .max) { self.limit = limit }

    /// Whether a host is to be reached over TLS only: it is known, or a name above it is that speaks for those below (RFC
    /// 6797, section 8.2).
    ///
    /// - Parameters:
    ///   - host: in the form that ``HSTSRecords/name(of:)`` gives it.
    ///   - now: seconds since 1970.
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

    /// Takes what a host says. True if that changes anything.
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
        // A busy host says it with each response. What is a minute old is as good, and need not be written again.
        guard let old, !old.isWithdrawn else { return true }
        return old.includesSubdomains != new.includesSubdomains || abs(old.expires - new.expires) > 60
    }

    /// Removes a host because the program says so.
    mutating func withdraw(_ host: String, at milliseconds: Int64) {
        guard var record = records[host] else { return }
        record.isWithdrawn = true
        record.noted = max(milliseconds, record.noted + 1)
        records[host] = record
    }

    /// Takes what another process has noted later.
    mutating func merge(_ other: HSTSRecords, at now: Int64) {
        for (host, record) in other.records where (records[host]?.noted ?? .min) < record.noted { records[host] = record }
        records = records.filter { $0.value.expires > now }
        makeRoom(at: now)
    }

    mutating func insert(_ record: HSTSRecord, _ host: String) { records[host] = record }

    /// Those that are valid, in the order of their names.
    func hosts(at now: Int64) -> [HSTSHost] {
        records.filter { isValid($0.value, now) }
            .map {
                HSTSHost(
                    name: $0.key, includesSubdomains: $0.value.includesSubdomains,
                    expires: Date(timeIntervalSince1970: TimeInterval($0.value.expires)))
            }
            .sorted { $0.name < $1.name }
    }

    /// Removes an eighth where there are too many: what has expired, and then those of the domain that has most of them, so
    /// that nobody with many names of his own can have others forgotten.
    private mutating func makeRoom(at now: Int64) {
        guard records.count > limit else { return }
        let target = limit - limit / 8
        records = records.filter { $0.value.expires > now }
        guard records.count > target else { return }
        var domains = Dictionary(grouping: records, by: { Self.domain(of: $0.key) })
            .map { $0.value.sorted { ($0.value.noted, $0.key) > ($1.value.noted, $1.key) } }
        var surplus = records.count - target
        while surplus > 0 {
            // A few of the largest at a time, the oldest first.
            domains.sort { $0.count > $1.count }
            let next = domains.count > 1 ? domains[1].count : 0
            let count = min(surplus, max(1, domains[0].count - next))
            for record in domains[0].suffix(count) { records[record.key] = nil }
            domains[0].removeLast(count)
            surplus -= count
        }
    }

    /// The last two labels.
    private static func domain(of host: String) -> String {
        host.split(separator: ".").suffix(2).joined(separator: ".")
    }

    /// A host as a key; nil for an IP address, which has no such policy (RFC 6797, section 8.1.1), and for what is no name.
    static func name(of host: String) -> String? {
        guard let name = HostName(host), case .name(let text) = name.kind else { return nil }
        return text
    }
}
