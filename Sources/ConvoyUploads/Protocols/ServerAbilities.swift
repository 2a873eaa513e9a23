import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// What a server has said about its uploads.
struct ServerAbilities: Sendable {
    /// The versions of tus that it speaks.
    var tusVersions: [String] = []
    /// The extensions of tus that it has.
    var extensions: Set<String> = []
    /// The algorithms of the checksums that it compares, by its names.
    var checksums: [String] = []
    /// The interop version of the draft; nil if it has named none.
    var interopVersion: Int?
    /// Whether it has said that it knows the draft.
    var knowsDraft = false
    /// The largest upload, and the largest and smallest part of one that is sent at once, in bytes.
    var maximumSize: Int64?
    var maximumAppend: Int64?
    var minimumAppend: Int64?

    init() {}

    init(_ head: ResponseHead) {
        tusVersions = Self.list(head["Tus-Version"])
        if tusVersions.isEmpty { tusVersions = Self.list(head["Tus-Resumable"]) }
        extensions = Set(Self.list(head["Tus-Extension"]))
        checksums = Self.list(head["Tus-Checksum-Algorithm"])
        maximumSize = head["Tus-Max-Size"].flatMap { Int64($0) }.flatMap { $0 >= 0 ? $0 : nil }
        interopVersion = head["Upload-Draft-Interop-Version"].flatMap { Int($0) }
        knowsDraft =
            interopVersion != nil || head["Upload-Limit"] != nil
            || Self.list(head["Accept-Patch"]).contains("application/partial-upload")
        noteLimits(head)
    }

    /// Takes over the limits of an answer (`Upload-Limit`, a dictionary of a structured field with numbers).
    mutating func noteLimits(_ head: ResponseHead) {
        for item in Self.list(head["Upload-Limit"]) {
            let words = item.split(separator: "=", maxSplits: 1)
            guard words.count == 2, let number = Int64(words[1]), number >= 0 else { continue }
            switch words[0] {
            case "max-size": maximumSize = number
            case "max-append-size": maximumAppend = max(1, number)
            case "min-append-size": minimumAppend = number
            default: break
            }
        }
    }

    var speaksTus: Bool { tusVersions.contains("1.0.0") }

    private static func list(_ value: String?) -> [String] {
        (value ?? "").split(separator: ",").map { String(HTTPSyntax.trimmed($0)).lowercased() }.filter { !$0.isEmpty }
    }
}

/// The differences between tus and the versions of the draft: the fields of their requests.
enum ResumableDialect: Sendable, Hashable {
    case tus
    case draft(Int)

    /// The versions of the draft whose fields are known.
    static let versions = 3...8

    var isTus: Bool { self == .tus }

    func mark(_ request: inout URLRequest) {
        switch self {
        case .tus: request.setValue("1.0.0", forHTTPHeaderField: "Tus-Resumable")
        case .draft(let version): request.setValue("\(version)", forHTTPHeaderField: "Upload-Draft-Interop-Version")
        }
    }

    /// Says whether the request carries the end of the upload.
    func setComplete(_ isComplete: Bool, _ request: inout URLRequest) {
        guard case .draft(let version) = self else { return }
        if version == 3 {
            request.setValue(isComplete ? "?0" : "?1", forHTTPHeaderField: "Upload-Incomplete")
        } else {
            request.setValue(isComplete ? "?1" : "?0", forHTTPHeaderField: "Upload-Complete")
        }
    }

    /// Whether the server says that the upload is complete; nil if it says nothing.
    func isComplete(_ answer: UploadAnswer) -> Bool? {
        answer.flag("Upload-Complete") ?? answer.flag("Upload-Incomplete").map { !$0 }
    }

    /// The media type of what is added to an upload; nil for none.
    var partType: String? {
        switch self {
        case .tus: "application/offset+octet-stream"
        case .draft(let version): version >= 6 ? "application/partial-upload" : nil
        }
    }
}

extension ChecksumAlgorithm {
    /// The name in `Upload-Checksum`.
    var tusName: String {
        switch self {
        case .md5: "md5"
        case .sha1: "sha1"
        case .sha256: "sha256"
        case .sha512: "sha512"
        }
    }

    /// The name in `Repr-Digest` and `Content-Digest` (RFC 9530); nil for those that must not be used.
    var digestName: String? {
        switch self {
        case .md5, .sha1: nil
        case .sha256: "sha-256"
        case .sha512: "sha-512"
        }
    }
}
