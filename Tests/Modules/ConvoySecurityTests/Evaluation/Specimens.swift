import ConvoySecurity
import ConvoyTestServer
import Foundation

/// The specimens of the table.
struct Specimens {
    typealias Profile = TestCertificate.Profile
    typealias Link = Specimen.Link
    let made: SpecimenAuthorities
    private let server = SpecimenAuthorities.server
    private let root = Link(part: .root, isSent: false)

    /// Returns all specimens.
    func all() throws -> [Specimen] {
        try dates() + keys() + authorities() + usages() + names() + chains() + attacks()
    }

    private func leaf(_ change: (inout Profile) -> Void) throws -> TestCertificate {
        var profile = server
        change(&profile)
        return try made.intermediate.issue(profile)
    }

    private func below(_ change: (inout Profile) -> Void) throws -> TestCertificate {
        var profile = Profile.authority("Odd Intermediate")
        change(&profile)
        return try made.root.issue(profile).issue(server)
    }

    private func path(
        leaf: Set<Specimen.Reason> = [], _ intermediate: Set<Specimen.Reason> = [],
        signature: (Set<Specimen.Reason>, Set<Specimen.Reason>) = ([], [])
    ) -> [Link] {
        [
            Link(part: .leaf, faults: leaf, faultsOfSignature: signature.0),
            Link(part: .intermediate, faults: intermediate, faultsOfSignature: signature.1), root,
        ]
    }

    private func dates() throws -> [Specimen] {
        let (past, future) = (Date(timeIntervalSinceNow: -60), Date(timeIntervalSinceNow: 3_600))
        return try [
            made.specimen("good", of: leaf { _ in }),
            made.specimen("expired", of: leaf { $0.notAfter = past }, path: path(leaf: [.expired])),
            made.specimen("expired intermediate", of: below { $0.notAfter = past }, path: path([.expired])),
            made.specimen("not yet valid", of: leaf { $0.notBefore = future }, path: path(leaf: [.notYetValid])),
            made.specimen(
                "intermediate not yet valid", of: below { $0.notBefore = future }, path: path([.notYetValid])),
            made.specimen(
                "expired, below one not yet valid",
                of: made.root.issue(profile(.authority("Future")) { $0.notBefore = future })
                    .issue(profile(server) { $0.notAfter = past }), path: path(leaf: [.expired], [.notYetValid])),
        ]
    }

    private func profile(_ profile: Profile, _ change: (inout Profile) -> Void) -> Profile {
        var profile = profile
        change(&profile)
        return profile
    }

    private func keys() throws -> [Specimen] {
        let first = try leaf { _ in }
        var replaced = try made.specimen("replaced key", of: first.replacingKey(), path: path())
        (replaced.parts[.leaf], replaced.path[0].part, replaced.sendsOnlyParts) = (first, nil, false)
        var renewed = try made.specimen("renewed with the same key", of: first.reissued())
        renewed.name = "renewed"
        return try [
            replaced, renewed,
            made.specimen("RSA-1024", of: leaf { $0.key = .rsa(bits: 1024) }, path: path(leaf: [.weakKey])),
            made.specimen("RSA-1024 intermediate", of: below { $0.key = .rsa(bits: 1024) }, path: path([.weakKey])),
            made.specimen(
                "SHA-1", of: leaf { $0.digest = .sha1 }, path: path(signature: ([.weakSignature], []))),
            made.specimen(
                "SHA-1 intermediate", of: below { $0.digest = .sha1 }, path: path(signature: ([], [.weakSignature]))),
            made.specimen("Ed25519", of: leaf { $0.key = .ed25519 }),
        ]
    }

    private func authorities() throws -> [Specimen] {
        let selfSigned = try TestCertificate.selfSigned(server)
        let wrong = try made.unknownRoot.issue(.authority("Unknown Intermediate")).issue(server)
        var missing = try made.specimen("missing intermediate", of: leaf { _ in })
        missing.rest.removeLast()
        missing.path[1].isSent = false
        var sentRoot = made.specimen("wrong root, sent along", of: wrong, leadsToTrusted: false)
        sentRoot.rest.append(made.unknownRoot)
        sentRoot.path[2].isSent = true
        return try [
            made.specimen("self-signed", of: selfSigned, path: [Link(part: .leaf)], leadsToTrusted: false),
            made.specimen("wrong root", of: wrong, leadsToTrusted: false), missing, sentRoot,
            made.specimen(
                "expired, self-signed",
                of: .selfSigned(profile(server) { $0.notAfter = Date(timeIntervalSinceNow: -1) }),
                path: [Link(part: .leaf, faults: [.expired])], leadsToTrusted: false),
        ]
    }

    private func usages() throws -> [Specimen] {
        let constraint = { (names: TestCertificate.NameConstraints) in try below { $0.nameConstraints = names } }
        return try [
            made.specimen(
                "for clients only", of: leaf { $0.extendedKeyUsages = [.clientAuth] }, path: path(leaf: [.wrongUsage])),
            made.specimen(
                "key for lists only", of: leaf { $0.keyUsages = .revocationListSigning },
                path: path(leaf: [.wrongUsage])),
            made.specimen(
                "authority for mail only", of: below { $0.extendedKeyUsages = [.emailProtection] },
                path: path([.wrongUsage])
            ),
            made.specimen(
                "any usage", of: leaf { $0.extendedKeyUsages = [.any, .serverAuth] }),
            made.specimen(
                "name constraints violated", of: constraint(.init(permittedDNSNames: ["example.org"])),
                path: path([.nameConstraints])),
            made.specimen(
                "name excluded", of: constraint(.init(excludedDNSNames: ["localhost"])),
                path: path([.nameConstraints])),
            made.specimen("name constraints kept", of: constraint(.init(permittedDNSNames: ["example.localhost"]))),
            made.specimen(
                "issuer without the CA flag",
                of: made.root.issue(profile(.server("evil.test")) { $0.keyUsages = nil }).issue(server),
                path: path([.wrongUsage])),
            made.specimen(
                "path too long", of: made.shortRoot.issue(.authority("Too many")).issue(server),
                path: [
                    Link(part: .leaf), Link(part: .intermediate),
                    Link(part: .root, faults: [.wrongUsage], isSent: false),
                ]),
        ]
    }

    private func names() throws -> [Specimen] {
        var specimens: [Specimen] = []
        for name in NameCase.all {
            let certificate = try made.intermediate.issue(name.profile)
            var specimen = made.specimen(name.description, of: certificate)
            (specimen.host, specimen.namesHost) = (name.host, name.fits)
            specimens.append(specimen)
        }
        return specimens
    }

    private func chains() throws -> [Specimen] {
        var unrelated = try made.specimen("unrelated certificates at the end", of: leaf { _ in })
        unrelated.rest += [made.otherIntermediate, made.unknownRoot]
        unrelated.sendsOnlyParts = false
        let second = try made.intermediate.issue(.authority("Second")).issue(server)
        var unordered = made.specimen("unordered", of: second)
        unordered.rest = unordered.rest.reversed() + [made.root]
        unordered.path[3].isSent = true
        var long = made.root
        for number in 1...18 { long = try long.issue(.authority("Authority \(number)")) }
        return [unrelated, unordered, try made.specimen("chain of 20", of: long.issue(server))]
    }

    /// Returns the specimens presented by an attacker without the pinned key. The pinned parts are the victim's.
    private func attacks() throws -> [Specimen] {
        let victim = try leaf { _ in }
        let parts: [Specimen.Part: TestCertificate] = [
            .leaf: victim, .intermediate: made.intermediate, .root: made.root,
        ]
        let pinned = [victim, made.intermediate, made.root]
        let valid = try made.otherIntermediate.issue(server)
        let real = try made.intermediate.issue(server)
        var forged = real.derData
        forged[forged.count - 1] ^= 1
        let twin = try TestCertificate.root(.authority("Root")).issue(.authority("Intermediate")).issue(server)
        func attack(_ name: String, _ leaf: TestCertificate, _ path: [Link], trusted: Bool) -> Specimen {
            Specimen(
                name: "\(name), pinned ones appended", identity: leaf, rest: leaf.chain.dropFirst() + pinned,
                path: path,
                leadsToTrusted: trusted, sendsOnlyParts: false, parts: parts)
        }
        var badSignature = attack(
            "forged signature", real,
            [Link(faultsOfSignature: [.badSignature]), Link(part: .intermediate), Link(part: .root)], trusted: true)
        (badSignature.forged, badSignature.rest) = (try Certificate(derData: forged), pinned)
        return [
            badSignature,
            attack("another's valid chain", valid, [Link(), Link(), Link(isSent: false)], trusted: true),
            attack("self-signed", try .selfSigned(server), [Link()], trusted: false),
            attack("authorities with the same names", twin, [Link(), Link(), Link(isSent: false)], trusted: false),
        ]
    }
}
