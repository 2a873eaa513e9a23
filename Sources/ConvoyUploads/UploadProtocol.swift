/// The protocol by which a file is uploaded and resumed.
public enum UploadProtocol: Sendable, Hashable, Codable {
    /// The protocol that the server announces in response to an OPTIONS request: ``tus`` or the draft, otherwise
    /// ``plain``.
    case automatic
    /// tus 1.0 (<https://tus.io/protocols/resumable-upload>). The request's URL is the one that
    /// creates uploads.
    case tus
    /// The IETF draft "Resumable Uploads for HTTP", in an interop version from 3 to 8.
    case draft(interopVersion: Int)
    /// A single PUT or POST request, which cannot be resumed: after a failure, a pause or the end of the process, the
    /// upload starts over.
    case plain

    /// The draft, in the interop version that most servers support.
    public static let draft = UploadProtocol.draft(interopVersion: 6)
}
