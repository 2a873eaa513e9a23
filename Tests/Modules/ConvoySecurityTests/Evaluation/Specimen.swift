import ConvoySecurity
import ConvoyTestServer
import Foundation

/// The certificates presented by a server, and the facts about them, which are stated manually and not computed by the
/// code under test.
struct Specimen: Sendable {
    typealias Reason = ServerTrustFailure.Reason

    /// The parts that a policy can pin.
    enum Part: CaseIterable { case leaf, intermediate, root }

    /// A certificate on the path from the server's certificate to the root.
    struct Link {
        /// The part that a pin of this certificate refers to.
        var part: Part?
        /// The problems of the certificate, regardless of where a chain ends.
        var faults: Set<Reason> = []
        /// The problems of its signature, which matter only if a chain continues beyond it.
        var faultsOfSignature: Set<Reason> = []
        /// Whether the server sends this certificate.
        var isSent = true
    }

    var name: String
    /// The server's certificate, including its key.
    var identity: TestCertificate
    /// A certificate to send instead of the server's own, for which no server could have the key.
    var forged: Certificate?
    /// The certificates that are sent after the server's certificate.
    var rest: [TestCertificate]
    /// The host of the URL.
    var host = SpecimenAuthorities.host
    /// Whether the server's certificate names that host.
    var namesHost = true
    /// The issuers of each certificate, which can be part of a chain. Other certificates that are sent are not.
    var path: [Link]
    /// Whether the path ends at an authority trusted by the policies.
    var leadsToTrusted = true
    /// Whether all certificates that are sent are pinned if all parts are pinned.
    var sendsOnlyParts = true
    /// The certificates for the pins.
    var parts: [Part: TestCertificate]

    /// All certificates that are sent.
    var sent: [Certificate] {
        get throws { try [forged ?? Certificate(identity)] + rest.map { try Certificate($0) } }
    }
}

/// The authorities for the specimens. Created once, because all specimens use them.
struct SpecimenAuthorities: Sendable {
    let root: TestCertificate
    let intermediate: TestCertificate
    /// Another trusted authority, from which an attacker has a valid certificate.
    let otherRoot: TestCertificate
    let otherIntermediate: TestCertificate
    /// A trusted authority that may not have authorities below it.
    let shortRoot: TestCertificate
    /// An authority that is not trusted.
    let unknownRoot: TestCertificate

    init() throws {
        root = try .root(.authority("Root"))
        intermediate = try root.issue(.authority("Intermediate"))
        otherRoot = try .root(.authority("Other Root"))
        otherIntermediate = try otherRoot.issue(.authority("Other Intermediate"))
        shortRoot = try .root(.authority("Short Root", pathLength: 0))
        unknownRoot = try .root(.authority("Unknown Root"))
    }

    /// All authorities trusted by the policies in the tests.
    var trusted: CertificateAuthorities {
        get throws { .certificates([try Certificate(root), try Certificate(otherRoot), try Certificate(shortRoot)]) }
    }

    /// The certificate of a server without any problems.
    static let server = TestCertificate.Profile.server(host)
    /// The host of this machine. Like all names below "localhost", it resolves to this machine.
    static let host = "api.example.localhost"

    /// Returns the specimen for a server certificate that was issued in the usual way.
    func specimen(
        _ name: String, of leaf: TestCertificate, path: [Specimen.Link]? = nil, leadsToTrusted: Bool = true
    ) -> Specimen {
        let chain = leaf.chain
        var parts: [Specimen.Part: TestCertificate] = [.leaf: leaf]
        if leaf.issuer != nil { parts[.root] = leaf.root }
        if chain.count > 1 { parts[.intermediate] = chain[1] }
        var links = chain.map { _ in Specimen.Link() }
        links[0].part = .leaf
        if chain.count > 1 { links[1].part = .intermediate }
        if leaf.issuer != nil { links.append(Specimen.Link(part: .root, isSent: false)) }
        return Specimen(
            name: name, identity: leaf, rest: Array(chain.dropFirst()), path: path ?? links,
            leadsToTrusted: leadsToTrusted, sendsOnlyParts: chain.count <= 2, parts: parts)
    }
}
