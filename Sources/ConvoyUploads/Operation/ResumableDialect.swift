import ConvoySecurity
import Foundation
import FoundationNetworking

/// The differences between tus and the versions of the draft, in the fields of their requests.
enum ResumableDialect: Sendable, Hashable {
    case tus
    case draft(Int)

    /// The supported interop versions of the draft.
    static let versions = 3...8

    var isTus: Bool { self == .tus }

    var uploadProtocol: UploadProtocol {
        switch self {
        case .tus: .tus
        case .draft(let version): .draft(interopVersion: version)
        }
    }

    func mark(_ request: inout URLRequest) {
        switch self {
        case .tus: request.setValue("1.0.0", forHTTPHeaderField: "Tus-Resumable")
        case .draft(let version): request.setValue("\(version)", forHTTPHeaderField: "Upload-Draft-Interop-Version")
        }
    }

    /// Declares whether the request contains the end of the upload, in the field of this version.
    func setComplete(_ isComplete: Bool, _ request: inout URLRequest) {
        guard case .draft(let version) = self else { return }
        if version == 3 {
            request.setValue(isComplete ? "?0" : "?1", forHTTPHeaderField: "Upload-Incomplete")
        } else {
            request.setValue(isComplete ? "?1" : "?0", forHTTPHeaderField: "Upload-Complete")
        }
    }

    /// Returns whether the server reports that the upload is complete; nil if the response does not specify this.
    func isComplete(_ answer: UploadAnswer) -> Bool? {
        answer.flag("Upload-Complete") ?? answer.flag("Upload-Incomplete").map { !$0 }
    }

    /// The media type of appended bytes; nil for none.
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
        case .sha224: "sha224"
        case .sha256: "sha256"
        case .sha384: "sha384"
        case .sha512: "sha512"
        }
    }

    /// The name in `Repr-Digest` and `Content-Digest` (RFC 9530); nil for algorithms that must not be used.
    var digestName: String? {
        switch self {
        case .md5, .sha1, .sha224, .sha384: nil
        case .sha256: "sha-256"
        case .sha512: "sha-512"
        }
    }
}
