import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The upload capabilities announced by a server.
struct ServerAbilities: Sendable {
    /// The supported versions of tus.
    var tusVersions: [String] = []
    /// The supported extensions of tus.
    var extensions: Set<String> = []
    /// The supported checksum algorithms, by their tus names.
    var checksums: [String] = []
    /// The interop version of the draft; nil if not announced.
    var interopVersion: Int?
    /// Whether the server has announced support for the draft.
    var knowsDraft = false
    /// The maximum size of an upload, and the maximum and minimum size of a request that appends to it, in bytes.
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

    /// Applies the limits in a response (`Upload-Limit`, a structured dictionary with numbers).
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
