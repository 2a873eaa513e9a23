import ConvoySecurity
import ConvoyTestServer
import Foundation

/// Something that a server presents, and what is true of it: said here by hand, and not found out by the code that is
/// tested.
struct Specimen: Sendable {
    typealias Reason = ServerTrustFailure.Reason

    /// What a policy may pin of it.
    enum Part: CaseIterable { case leaf, intermediate, root }

    /// A certificate of the way from the server's to the root.
    struct Link {
        /// Which pin it matches.
        var part: Part?
        /// What is wrong with it, wherever a chain ends.
        var faults: Set<Reason> = []
        /// What is wrong with the signature on it, which only matters where a chain goes on.
        var faultsOfSignature: Set<Reason> = []
        /// Whether the server sends it.
        var isSent = true
    }

    var name: String
    /// The server's certificate, with its key.
    var identity: TestCertificate
    /// What is sent in place of that certificate: something that no server could have the key for.
    var forged: Certificate?
    /// What is sent behind it.
    var rest: [TestCertificate]
    /// The host of the URL.
    var host = SpecimenAuthorities.host
    /// Whether the server's certificate names that host.
    var namesHost = true
    /// Whom each certificate was issued by: what a chain can consist of. What is sent besides these is in no chain.
    var path: [Link]
    /// Whether the last of the path is an authority that the policies trust.
    var leadsToTrusted = true
    /// Whether everything that is sent is pinned, if all parts are.
    var sendsOnlyParts = true
    /// What the pins are made of.
    var parts: [Part: TestCertificate]

    /// All that is sent.
    var sent: [Certificate] {
        get throws { try [forged ?? Certificate(identity)] + rest.map { try Certificate($0) } }
    }
}

/// The authorities of the specimens. Made once, as they are used by all.
struct SpecimenAuthorities: Sendable {
    let root: TestCertificate
    let intermediate: TestCertificate
    /// Trusted as well: that from which an attacker has a valid certificate.
    let otherRoot: TestCertificate
    let otherIntermediate: TestCertificate
    /// One that may have no authority below it, trusted.
    let shortRoot: TestCertificate
    /// Not trusted.
    let unknownRoot: TestCertificate

    init() throws {
        root = try .root(.authority("Root"))
        intermediate = try root.issue(.authority("Intermediate"))
        otherRoot = try .root(.authority("Other Root"))
        otherIntermediate = try otherRoot.issue(.authority("Other Intermediate"))
        shortRoot = try .root(.authority("Short Root", pathLength: 0))
        unknownRoot = try .root(.authority("Unknown Root"))
    }

    /// All that the policies of the tests trust.
    var trusted: CertificateAuthorities {
        get throws { .certificates([try Certificate(root), try Certificate(otherRoot), try Certificate(shortRoot)]) }
    }

    /// The certificate of a server that has nothing wrong with it.
    static let server = TestCertificate.Profile.server(host)
    /// Its name is one of this machine's, as are all below "localhost".
    static let host = "api.example.localhost"

    /// A server's certificate that came to be in the usual way, as the specimen of its chain.
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
