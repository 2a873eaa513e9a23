import ConvoySerialization
import Foundation
import FoundationNetworking

/// The body of an upload: data, a file, a stream, or an asynchronous sequence.
///
/// ```swift
/// try await manager.upload("photos/7", method: .put, from: .file(photo))
/// let receipt: Receipt = try await manager.upload("notes", from: .data(note))
/// ```
///
/// Data, a file, and a sequence that can be created again can be uploaded any number of times; a stream or another
/// sequence only once.
public struct UploadBody: Sendable {
    /// Creates the body of one request.
    let make: @Sendable () -> RequestBody

    /// Data, with the content type `application/octet-stream` unless a header specifies a different type.
    public static func data(_ data: Data) -> UploadBody {
        UploadBody { .data(data, contentType: MIMEType.unknown) }
    }

    /// A file, which is read while it is sent, and again after a redirect. The upload fails if the length of the file
    /// changes in the meantime. The content type is derived from the file extension, unless a header specifies it.
    public static func file(_ file: URL) -> UploadBody { UploadBody { .file(file) } }

    /// A stream, which is read while it is sent, on an internal thread, up to the given length. The upload fails if the
    /// stream is shorter.
    ///
    /// Unless it is a `ReplayableBodyStream`, a stream can be sent only once, and the upload fails if a redirect or a
    /// retry must send it again. Do not use the stream while it is being uploaded.
    public static func stream(_ stream: InputStream, length: Int64) -> UploadBody {
        // Only the transfer uses the stream, as with `URLRequest.httpBodyStream`.
        nonisolated(unsafe) let stream = stream
        return UploadBody { .stream(stream, length: length) }
    }

    /// An asynchronous sequence of byte collections, for example `Data` or `[UInt8]`. Each element is requested when
    /// the network accepts it; see `URLRequest.setBody(_:length:)`.
    ///
    /// ```swift
    /// let (bytes, _) = try await source.bytes(.get, "archive")
    /// try await target.upload("archive", method: .put, from: .sequence(bytes.chunks))
    /// ```
    public static func sequence<Pieces: AsyncSequence & Sendable>(
        _ pieces: Pieces, length: Int64? = nil
    ) -> UploadBody
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        UploadBody { .sequence(pieces, length: length) }
    }

    /// An asynchronous sequence that `make` can create again, and that can therefore be sent again if necessary; see
    /// `URLRequest.setBody(length:making:)`.
    public static func sequence<Pieces: AsyncSequence & SendableMetatype>(
        length: Int64? = nil, making make: @escaping @Sendable () throws -> Pieces
    ) -> UploadBody
    where Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8, Pieces.AsyncIterator: SendableMetatype {
        UploadBody { .sequence(length: length, making: make) }
    }
}
