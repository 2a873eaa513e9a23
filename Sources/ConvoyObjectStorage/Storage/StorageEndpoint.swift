import ConvoySupport
import Foundation

/// Where a bucket is: a pure value, from which the URLs of objects follow, and which hosts belong to it.
struct StorageEndpoint: Sendable, Hashable {
    let target: Target
    /// The path of the endpoint, with a slash at its end.
    let path: String
    let bucket: String
    let addressing: ObjectStorage.Addressing
    let region: String

    init(_ configuration: ObjectStorage.Configuration) throws(ObjectStorageError) {
        guard let address = HTTPAddress(configuration.endpoint.absoluteString), !address.hasUserInfo,
            !address.afterAuthority.contains(where: { $0 == "?" || $0 == "#" })
        else {
            throw ObjectStorageError(
                .invalidConfiguration, "The endpoint is no http or https URL without user, query and fragment.")
        }
        target = address.target
        path = address.afterAuthority.hasSuffix("/") ? String(address.afterAuthority) : "\(address.afterAuthority)/"
        (bucket, addressing, region) = (configuration.bucket, configuration.addressing, configuration.region)
        guard Self.isName(bucket, with: "-_."), bucket != ".", bucket != ".." else {
            throw ObjectStorageError(.invalidConfiguration, "The bucket has a name that no bucket can have.")
        }
        guard Self.isName(region) else {
            throw ObjectStorageError(.invalidConfiguration, "The region is no name of letters, digits and hyphens.")
        }
        guard addressing == .path || !target.bareHost.contains(":") else {
            throw ObjectStorageError(.invalidConfiguration, "The bucket cannot be part of the name of an address.")
        }
    }

    /// Whether a text consists of letters and digits and a few others, so that it can be part of a host and of a path.
    static func isName(_ text: String, with others: String = "-") -> Bool {
        guard !text.isEmpty, text.utf8.count <= 255 else { return false }
        return text.utf8.allSatisfy { byte in
            let letter = ASCII.lowercased(byte)
            return ASCII.isDigit(byte) || UInt8(ascii: "a")...UInt8(ascii: "z") ~= letter || others.utf8.contains(byte)
        }
    }

    /// The URL of a key, or of the bucket, without the query.
    ///
    /// - Parameter region: that of the bucket, which can differ from the configured one.
    func address(of key: String?, in region: String) -> String {
        let host = (addressing == .virtualHost ? "\(bucket)." : "") + host(in: region)
        let authority = target.usesDefaultPort ? host : "\(host):\(target.port)"
        let name = addressing == .path ? "\(bucket)/" : ""
        let encoded = key.map { SignatureV4.encoded($0, keepsSlashes: true) }
        // The bucket itself has no slash at its end in the path style.
        let rest = encoded.map { name + $0 } ?? String(name.dropLast())
        return "\(target.scheme)://\(authority)\(path)\(rest)"
    }

    /// Amazon's endpoints have the region in their name.
    private func host(in region: String) -> String {
        guard region != self.region, let domain = Self.amazonDomain(of: target.host) else { return target.host }
        return "s3.\(region).\(domain)"
    }

    // MARK: Redirects

    /// Whether a request, with a signature of its own, may follow a redirect to a target: the endpoint itself, the bucket
    /// under it, or another S3 endpoint of Amazon's where this is one. Scheme and port stay.
    func includes(_ other: Target) -> Bool {
        guard other.isSecure == target.isSecure, other.port == target.port, other.zone == target.zone else { return false }
        if other.host == target.host || other.host == "\(bucket).\(target.host)" { return true }
        guard let domain = Self.amazonDomain(of: target.host) else { return false }
        let name = other.host.hasPrefix("\(bucket).") ? String(other.host.dropFirst(bucket.utf8.count + 1)) : other.host
        return Self.amazonDomain(of: name) == domain
    }

    /// The region that the name of one of Amazon's endpoints contains; nil for another name.
    func region(of other: Target) -> String? {
        let name = other.host.hasPrefix("\(bucket).") ? String(other.host.dropFirst(bucket.utf8.count + 1)) : other.host
        guard let domain = Self.amazonDomain(of: name) else { return nil }
        let labels = name.dropLast(domain.utf8.count + 1).split(separator: ".")
        if labels.count > 1 { return labels.last.map(String.init) }
        // The old form.
        return labels.first.flatMap { $0.hasPrefix("s3-") ? String($0.dropFirst(3)) : nil }
    }

    /// The domain of a name such as `s3.amazonaws.com`, `s3.eu-west-1.amazonaws.com`, `s3-eu-west-1.amazonaws.com` and
    /// `s3.dualstack.eu-west-1.amazonaws.com`. Others under the domain belong to Amazon's customers.
    private static func amazonDomain(of host: String) -> String? {
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

/// What a storage has learned from responses: how far the server's clock is ahead, and the bucket's region.
final class StorageMemory: Sendable {
    private struct State {
        var clockOffset: TimeInterval = 0
        var region: String?
    }

    private let state = Locked(State())

    /// The time on the server's clock.
    var now: Date { Date(timeIntervalSinceNow: state.withLock { $0.clockOffset }) }

    /// The region of the bucket, where it was found to be another than the configured one.
    var region: String? { state.withLock { $0.region } }

    /// Sets the clock by the `Date` of a response. False if that changes little.
    func learn(date: Date) -> Bool {
        let offset = date.timeIntervalSinceNow
        return state.withLock { state in
            guard abs(offset - state.clockOffset) > 30 else { return false }
            state.clockOffset = offset
            return true
        }
    }

    /// Notes the region. False if it is no news.
    func learn(region: String, otherThan signed: String) -> Bool {
        guard StorageEndpoint.isName(region) else { return false }
        state.withLock { $0.region = region }
        return region != signed
    }
}
