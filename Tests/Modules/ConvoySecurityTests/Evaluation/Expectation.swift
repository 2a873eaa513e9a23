import ConvoySecurity
import Foundation

/// A policy in the table, with the pins expressed as parts of a specimen.
struct PolicyCell: Sendable, CustomStringConvertible {
    enum Pins: Hashable { case parts(Set<Specimen.Part>), another }

    var mode = SecurityPolicy.PinningMode.none
    var pins = Pins.parts([])
    /// In the modes for keys and for nothing: whether the pins are given as certificates, and whether they are backup
    /// pins.
    var asCertificates = false
    var asBackup = false
    var areExpired = false
    var allowsInvalid = false
    var validatesName = true
    var validatesChain = false

    var description: String {
        "\(mode) \(pins)\(asCertificates ? " as certificates" : "")\(asBackup ? " as backup" : "")"
            + "\(areExpired ? " expired" : "")\(allowsInvalid ? ", allowing invalid ones" : "")"
            + "\(validatesName ? "" : ", without names")\(validatesChain ? ", whole chain" : "")"
    }

    /// The effective mode: pins also apply if the mode is `none`.
    var pinned: SecurityPolicy.PinningMode {
        if mode != .none || pins == .parts([]) { return mode }
        return asCertificates ? .certificate : .publicKey
    }

    /// The complete table.
    static let all: [PolicyCell] = {
        var cells = [PolicyCell()]
        let sets: [Pins] = [
            .parts([.leaf]), .parts([.intermediate]), .parts([.root]), .parts(Set(Specimen.Part.allCases)), .another,
        ]
        for pins in sets {
            cells.append(PolicyCell(mode: .publicKey, pins: pins))
            cells.append(PolicyCell(mode: .publicKey, pins: pins, asCertificates: true))
            cells.append(PolicyCell(mode: .certificate, pins: pins))
            cells.append(PolicyCell(pins: pins))
            cells.append(PolicyCell(pins: pins, asCertificates: true))
        }
        cells.append(PolicyCell(pins: .parts([.leaf]), asBackup: true))
        cells.append(PolicyCell(pins: .another, areExpired: true))
        cells.append(PolicyCell(mode: .publicKey, pins: .parts([.leaf]), asBackup: true))
        cells.append(PolicyCell(mode: .publicKey, pins: .parts([.root]), asBackup: true))
        cells.append(PolicyCell(mode: .publicKey, pins: .parts([.leaf]), areExpired: true))
        cells.append(PolicyCell(mode: .publicKey, pins: .another, areExpired: true))
        cells.append(PolicyCell(mode: .certificate, pins: .another, areExpired: true))
        return cells.flatMap { cell in
            (0..<8).map { flags in
                var cell = cell
                (cell.allowsInvalid, cell.validatesName, cell.validatesChain) =
                    (flags & 1 != 0, flags & 2 == 0, flags & 4 != 0)
                return cell
            }
        }
    }()

    /// Whether the server tests use the complete table instead of a part of it: `CONVOY_TRUST_TABLE=whole`.
    static let isWholeAsked = ProcessInfo.processInfo.environment["CONVOY_TRUST_TABLE"] == "whole"

    /// Returns whether the specimen contains any of the parts to pin.
    func isFor(_ specimen: Specimen) -> Bool {
        guard case .parts(let parts) = pins, !parts.isEmpty else { return true }
        return !parts.isDisjoint(with: specimen.parts.keys)
    }

    /// Returns the policy for a specimen.
    func policy(
        for specimen: Specimen, another: Certificate, _ authorities: CertificateAuthorities
    ) throws -> SecurityPolicy {
        let certificates: [Certificate] =
            switch pins {
            case .parts(let parts): try parts.compactMap { try specimen.parts[$0].map { try Certificate($0) } }
            case .another: [another]
            }
        var policy = SecurityPolicy(pinningMode: mode)
        let keys = Set(certificates.compactMap(\.publicKeyPin))
        if mode == .certificate || asCertificates {
            policy.pinnedCertificates = certificates
        } else if asBackup {
            policy.backupPins = keys
        } else {
            policy.publicKeyPins = keys
        }
        if areExpired { policy.pinsExpire = Date(timeIntervalSinceNow: -1) }
        policy.allowInvalidCertificates = allowsInvalid
        policy.validatesDomainName = validatesName
        policy.validatesCertificateChain = validatesChain
        policy.certificateAuthorities = authorities
        return policy
    }
}

/// The expected decision for a cell, derived from the specimen's description and AFNetworking's rules. It depends on
/// the chain, not on the certificates that were sent.
struct Expectation {
    typealias Reason = ServerTrustFailure.Reason
    let specimen: Specimen
    let cell: PolicyCell

    /// The problems in the order of their severity. If there are several, only the first is reported, because it makes
    /// all others meaningless.
    private static let worstFirst: [Reason] = [
        .badSignature, .unknownRoot, .invalidChain, .wrongUsage, .nameConstraints, .weakSignature, .weakKey, .wrongHost,
        .expired, .notYetValid,
    ]

    private func isPinned(_ link: Specimen.Link) -> Bool {
        guard case .parts(let parts) = cell.pins, let part = link.part else { return false }
        return parts.contains(part)
    }

    /// Returns the length of the path. The trusted root and a pinned server certificate need not be sent.
    private func reach(withPins: Bool) -> Int {
        let path = specimen.path
        var count = 1
        while count < path.count {
            let isKnown =
                path[count].isSent || count == path.count - 1 && specimen.leadsToTrusted
                || withPins && isPinned(path[count])
            guard isKnown else { break }
            count += 1
        }
        return count
    }

    /// Returns the problems of a chain with the first links.
    private func faults(ofFirst count: Int) -> Set<Reason> {
        let links = specimen.path.prefix(count)
        return links.reduce(into: Set(links.dropLast().flatMap(\.faultsOfSignature))) { $0.formUnion($1.faults) }
    }

    private func worst(_ faults: Set<Reason>) -> Reason? { Self.worstFirst.first(where: faults.contains) }

    /// The reason for a refusal; nil if the server must be trusted.
    var reason: Reason? {
        let inForce = cell.pinned != .none && !cell.areExpired
        let allows = cell.allowsInvalid && (inForce || cell.pinned == .none)
        let checksName = cell.validatesName || cell.pinned != .none && !inForce
        if allows, cell.validatesName, !inForce { return .pinsMissing }
        let reached = reach(withPins: false)
        var faults = faults(ofFirst: reached)
        if reached < specimen.path.count || !specimen.leadsToTrusted { faults.insert(.unknownRoot) }
        if checksName, !specimen.namesHost { faults.insert(.wrongHost) }
        guard inForce else { return allows ? nil : worst(faults) }
        if !faults.isEmpty, !allows { return worst(faults) }
        if let reason = cell.pinned == .certificate ? certificateReason : keyReason(faults.isEmpty) { return reason }
        guard cell.validatesChain else { return nil }
        if faults.isEmpty { return specimen.path.allSatisfy(isPinned) ? nil : .chainNotPinned }
        let sent = specimen.path.filter(\.isSent)
        return specimen.sendsOnlyParts && sent.allSatisfy(isPinned) ? nil : .chainNotPinned
    }

    /// The reason for a refusal with pinned certificates. They are the only authorities, so the chain ends at the first
    /// one.
    private var certificateReason: Reason? {
        guard let end = specimen.path.prefix(reach(withPins: true)).firstIndex(where: isPinned) else {
            return .notPinned
        }
        var faults = faults(ofFirst: end + 1)
        if cell.validatesName, !specimen.namesHost { faults.insert(.wrongHost) }
        return worst(faults)
    }

    /// Returns the reason for a refusal with pinned keys; nil if the server must be trusted. A pinned key must be in
    /// the valid chain. If the chain is invalid, the key must be the server's or have certified it, and only dates and
    /// the usage of the server's own certificate may be wrong. The name must match if it is validated.
    private func keyReason(_ isValid: Bool) -> Reason? {
        if let reason = pathReason(isValid) { return reason }
        return cell.validatesName && !specimen.namesHost ? .wrongHost : nil
    }

    private func pathReason(_ isValid: Bool) -> Reason? {
        if isValid { return specimen.path.contains(where: isPinned) ? nil : .notPinned }
        let reached = specimen.path.prefix(reach(withPins: cell.asCertificates))
        guard let end = reached.firstIndex(where: isPinned) else { return .notPinned }
        if end == 0 { return nil }
        let leaf = specimen.path[0]
        let faults =
            faults(ofFirst: end + 1).subtracting([.expired, .notYetValid])
            .subtracting(leaf.faults.intersection([.weakKey, .wrongUsage]))
        let isTolerable = faults.isEmpty && leaf.faultsOfSignature.isEmpty
        return isTolerable ? nil : .notPinned
    }
}
