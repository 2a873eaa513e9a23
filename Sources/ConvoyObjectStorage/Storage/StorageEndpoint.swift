import ConvoySupport
import Foundation

/// The location of a bucket: a pure value that determines the URLs of objects and the hosts that belong to it.
struct StorageEndpoint: Sendable, Hashable {
    let target: Target
    /// The path of the endpoint, with a trailing slash.
    let path: String
    let bucket: String
    let addressing: ObjectStorage.Addressing
    let region: String

    init(_ configuration: ObjectStorage.Configuration) throws(ObjectStorageError) {
        guard let address = HTTPAddress(configuration.endpoint.absoluteString), !address.hasUserInfo,
            !address.afterAuthority.contains(where: { $0 == "?" || $0 == "#" })
        else {
            throw ObjectStorageError(
                .invalidConfiguration, "Invalid endpoint: use an http or https URL without user, query and fragment.")
        }
        target = address.target
        path = address.afterAuthority.hasSuffix("/") ? String(address.afterAuthority) : "\(address.afterAuthority)/"
        bucket = configuration.bucket
        addressing = configuration.addressing
        region = configuration.region
        guard Self.isName(bucket, with: "-_."), bucket != ".", bucket != ".." else {
            throw ObjectStorageError(
                .invalidConfiguration,
                "Invalid bucket \(bucket.debugDescription): use only letters, digits, hyphens, underscores and dots.")
        }
        guard Self.isName(region) else {
            throw ObjectStorageError(
                .invalidConfiguration,
                "Invalid region \(region.debugDescription): use only letters, digits and hyphens.")
        }
        guard addressing == .path || !target.bareHost.contains(":") else {
            throw ObjectStorageError(
                .invalidConfiguration,
                "An endpoint with an IPv6 address does not support buckets in the host name: use path addressing.")
        }
    }

    /// Returns whether a string consists of letters, digits and the given characters, so that it can be part of a host
    /// and a path.
    static func isName(_ text: String, with others: String = "-") -> Bool {
        guard !text.isEmpty, text.utf8.count <= 255 else { return false }
        return text.utf8.allSatisfy { byte in
            let letter = ASCII.lowercased(byte)
            return ASCII.isDigit(byte) || UInt8(ascii: "a")...UInt8(ascii: "z") ~= letter || others.utf8.contains(byte)
        }
    }

    /// Returns the URL of a key, or of the bucket, without a query.
    ///
    /// - Parameter region: The region of the bucket, which may differ from the configured one.
    func address(of key: String?, in region: String) -> String {
        let host = (addressing == .virtualHost ? "\(bucket)." : "") + host(in: region)
        let authority = target.usesDefaultPort ? host : "\(host):\(target.port)"
        let name = addressing == .path ? "\(bucket)/" : ""
        let encoded = key.map { SignatureV4.encoded($0, keepsSlashes: true) }
        // In path style, the URL of the bucket has no trailing slash.
        let rest = encoded.map { name + $0 } ?? String(name.dropLast())
        return "\(target.scheme)://\(authority)\(path)\(rest)"
    }

    /// Returns the host for a region, because the names of Amazon's endpoints contain the region.
    private func host(in region: String) -> String {
        guard region != self.region, let domain = Self.amazonDomain(of: target.host) else { return target.host }
        return "s3.\(region).\(domain)"
    }

    // MARK: Redirects

    /// Returns whether a request may follow a redirect to a target, with its own signature: the endpoint itself, the
    /// bucket below it, or another S3 endpoint of Amazon if this is one. Scheme and port must be the same.
    func includes(_ other: Target) -> Bool {
        guard other.isSecure == target.isSecure, other.port == target.port, other.zone == target.zone else { return false }
        if other.host == target.host || other.host == "\(bucket).\(target.host)" { return true }
        guard let domain = Self.amazonDomain(of: target.host) else { return false }
        let name = other.host.hasPrefix("\(bucket).") ? String(other.host.dropFirst(bucket.utf8.count + 1)) : other.host
        return Self.amazonDomain(of: name) == domain
    }

    /// Returns the region in the name of an Amazon endpoint; nil for other names.
    func region(of other: Target) -> String? {
        let name = other.host.hasPrefix("\(bucket).") ? String(other.host.dropFirst(bucket.utf8.count + 1)) : other.host
        guard let domain = Self.amazonDomain(of: name) else { return nil }
        let labels = name.dropLast(domain.utf8.count + 1).split(separator: ".")
        if labels.count > 1 { return labels.last.map(String.init) }
        // The first label may have the legacy form `s3-REGION`.
        return labels.first.flatMap { $0.hasPrefix("s3-") ? String($0.dropFirst(3)) : nil }
    }

    /// Returns the domain of a name such as `s3.amazonaws.com`, `s3.eu-west-1.amazonaws.com`,
    /// `s3-eu-west-1.amazonaws.com` and `s3.dualstack.eu-west-1.amazonaws.com`. Other names in the domain belong to
    /// Amazon's customers.
    fileprivate static func amazonDomain(of host: String) -> String? {
        for domain in ["amazonaws.com", "amazonaws.com.cn"]
        where host != domain && HostName.isName(host, equalToOrBelow: domain) {
            let labels = host.dropLast(domain.utf8.count + 1).split(separator: ".", omittingEmptySubsequences: false)
            guard let first = labels.first, first == "s3" || first.hasPrefix("s3-"), labels.count <= 3,
                labels.count < 3 || labels[1] == "dualstack", labels.dropFirst().allSatisfy({ !$0.isEmpty })
            else { return nil }
            return domain
        }
        return nil
    }
}

extension ObjectStorage.Addressing {
    /// Returns the addressing that the endpoint supports for a bucket: ``virtualHost`` for Amazon's endpoints, unless the
    /// bucket cannot be a single label of a host name, for which certificates are valid; ``path`` for other servers.
    package static func automatic(for endpoint: URL, bucket: String) -> ObjectStorage.Addressing {
        guard let target = Target(endpoint), StorageEndpoint.amazonDomain(of: target.host) != nil,
            StorageEndpoint.isName(bucket), !bucket.utf8.contains(where: { ASCII.lowercased($0) != $0 })
        else { return .path }
        return .virtualHost
    }
}

/// The offset of the server's clock and the bucket's region, as learned from responses.
final class StorageMemory: Sendable {
    private struct State {
        var clockOffset: TimeInterval = 0
        var region: String?
    }

    private let state = Locked(State())

    /// The current time on the server's clock.
    var now: Date { Date(timeIntervalSinceNow: state.withLock { $0.clockOffset }) }

    /// The region of the bucket, if it differs from the configured one.
    var region: String? { state.withLock { $0.region } }

    /// Sets the clock from the `Date` of a response. Returns false if it differs by at most 30 seconds.
    func learn(date: Date) -> Bool {
        let offset = date.timeIntervalSinceNow
        return state.withLock { state in
            guard abs(offset - state.clockOffset) > 30 else { return false }
            state.clockOffset = offset
            return true
        }
    }

    /// Stores the region. Returns false if it is not new.
    func learn(region: String, otherThan signed: String) -> Bool {
        guard StorageEndpoint.isName(region) else { return false }
        state.withLock { $0.region = region }
        return region != signed
    }
}
