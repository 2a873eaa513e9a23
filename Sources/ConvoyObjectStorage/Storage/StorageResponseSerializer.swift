import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// The contents required of a successful response.
enum AnswerKind: Sendable, Hashable {
    /// No contents: the status is sufficient.
    case nothing
    /// The entity tag of the stored object, and optionally its checksum.
    case stored
    /// The header fields of an object.
    case head
    /// The contents of an object.
    case data
    /// A document with this element below its root, whose name varies between servers. A root `Error` is a failure,
    /// even with status 200.
    case document(with: String)
}

/// A serializer that creates the results and errors of a storage's operations.
struct StorageResponseSerializer: HTTPResponseSerialization {
    var http = HTTPResponseSerializer()
    private let call: StorageCall
    private let place: StoragePlace
    /// The region of the request.
    private let region: String
    /// The maximum size of an error document, in bytes.
    private static let errorLimit = 64 << 10

    init(_ call: StorageCall, in place: StoragePlace) {
        self.call = call
        self.place = place
        region = place.region
        if call.answer != .data { http.limits.maximumBodySize = place.answerLimit }
    }

    func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        guard let response = response as? HTTPURLResponse else {
            throw failure(.malformedAnswer, "The server sent no response.")
        }
        guard 200..<300 ~= response.statusCode else { throw error(response, data) }
        switch call.answer {
        case .nothing: return nil
        case .stored: return try stored(response)
        case .head: return StoredObject(response, key: call.name ?? "")
        case .data: return try verified(data ?? Data(), response)
        case .document(let element): return try document(with: element, response, data ?? Data())
        }
    }

    // MARK: Success

    private func stored(_ response: HTTPURLResponse) throws -> StoredObject {
        var object = StoredObject(response, key: call.name ?? "")
        // These fields describe the response, which has no body, rather than the object.
        object.size = call.payload.length
        object.contentType = nil
        object.metadata = [:]
        object.checksums = []
        let digests = try call.payload.digests()
        if let checksum = response.value(forHTTPHeaderField: "x-amz-checksum-sha256") {
            guard checksum == digests.sha256.base64EncodedString() else {
                throw failure(.checksumMismatch, "The server stored bytes with a different checksum.", response)
            }
            return object
        }
        // An entity tag of this form is the MD5 digest, unless a customer's or service's key encrypts the object.
        let encryption = response.value(forHTTPHeaderField: "x-amz-server-side-encryption") ?? "AES256"
        let isOfCustomer = response.value(forHTTPHeaderField: "x-amz-server-side-encryption-customer-algorithm") != nil
        if let md5 = digests.md5?.hexadecimalString, let tag = object.plainEntityTag, Self.isDigest(tag),
            encryption == "AES256", !isOfCustomer, tag.lowercased() != md5
        {
            throw failure(.checksumMismatch, "The entity tag does not match the bytes sent.", response)
        }
        return object
    }

    static func isDigest(_ tag: String) -> Bool { tag.utf8.count == 32 && tag.utf8.allSatisfy { ASCII.isHexadecimal($0) } }

    private func verified(_ data: Data, _ response: HTTPURLResponse) throws -> Data {
        guard response.statusCode == 200 else { return data }
        for checksum in ObjectChecksum.all(in: response) where checksum.matches(data) == false {
            throw failure(
                .checksumMismatch, "The received bytes do not match the server's \(checksum.algorithm) checksum.", response)
        }
        return data
    }

    private func document(with element: String, _ response: HTTPURLResponse, _ data: Data) throws -> StorageXML {
        guard let document = StorageXML(data, limit: place.answerLimit) else {
            throw failure(.malformedAnswer, "The response is not an XML document or is too large.", response)
        }
        if document.name == "Error" { throw error(response, document) }
        guard document[element] != nil else {
            throw failure(.malformedAnswer, "The response contains an unexpected document.", response)
        }
        return document
    }

    // MARK: Failure

    private func failure(
        _ code: ObjectStorageError.Code, _ message: String, _ response: HTTPURLResponse? = nil
    ) -> ObjectStorageError {
        var error = ObjectStorageError(code, message).about(bucket: place.endpoint.bucket, key: call.name)
        error.statusCode = response?.statusCode
        error.requestID = response?.value(forHTTPHeaderField: "x-amz-request-id").map(Self.line)
        return error
    }

    private func error(_ response: HTTPURLResponse, _ data: Data?) -> ObjectStorageError {
        let document = data.flatMap { StorageXML($0, limit: Self.errorLimit) }
        return error(response, document.flatMap { $0.name == "Error" ? $0 : nil })
    }

    private func error(_ response: HTTPURLResponse, _ document: StorageXML?) -> ObjectStorageError {
        let code: ObjectStorageError.Code
        var message = document?["Message"].map(Self.line)
        if let text = document?["Code"], StorageEndpoint.isName(text) {
            code = ObjectStorageError.Code(rawValue: text)
        } else if 300..<400 ~= response.statusCode, response.value(forHTTPHeaderField: "Location") != nil {
            code = .redirectRefused
            message = "A redirect was not followed because it leaves the storage endpoint."
        } else {
            // The response to a HEAD contains no document.
            (code, message) =
                switch response.statusCode {
                case 404 where call.key == nil: (.noSuchBucket, message ?? "The bucket does not exist.")
                case 404: (.noSuchKey, message ?? "The object does not exist.")
                case 403: (.accessDenied, message ?? "The credentials do not allow the request.")
                case 412: (.preconditionFailed, message ?? "The condition of the request was not met.")
                default: (.unexplained, message)
                }
        }
        let text = message ?? "The server responded with status \(response.statusCode)."
        var error = failure(code, text, response)
        if let id = document?["RequestId"], error.requestID == nil { error.requestID = Self.line(id) }
        error.isCorrected = learn(from: response, document, code)
        return error
    }

    /// Stores the region or the time from a response. Returns whether a second request may succeed.
    private func learn(
        from response: HTTPURLResponse, _ document: StorageXML?, _ code: ObjectStorageError.Code
    ) -> Bool {
        let named = response.value(forHTTPHeaderField: "x-amz-bucket-region") ?? document?["Region"]
        if let named, named != region, [301, 307, 400, 403].contains(response.statusCode) {
            return place.memory.learn(region: named, otherThan: region)
        }
        // The rejection of a HEAD contains no code.
        let isSkewed = code == .requestTimeTooSkewed || response.statusCode == 403 && call.method == "HEAD"
        guard isSkewed, let date = response.value(forHTTPHeaderField: "Date").flatMap({ HTTPDate.date($0) }) else {
            return false
        }
        return place.memory.learn(date: date)
    }

    /// Returns a string from the server as one line, without secrets.
    private static func line(_ text: String) -> String {
        let line = text.unicodeScalars.prefix(500).map { $0.properties.generalCategory == .control ? " " : $0 }
        return Redaction.text(String(String.UnicodeScalarView(line)))
    }
}
