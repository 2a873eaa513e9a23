import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// The part of a request that is stored and never changes.
package struct StoredRequest: Sendable, Codable {
    package enum Work: Sendable, Codable {
        case download(StoredDownload)
        case send(StoredSending)
        case upload(StoredUpload)
    }

    package var method: String
    package var url: URL
    package var header: [HeaderLine]
    /// The idle timeout, in seconds.
    package var timeout: TimeInterval
    package var work: Work
    /// The names of the header fields that are not stored because they contain secrets.
    package var withheld: [String] = []

    var body: StoredBody? { if case .send(let sending) = work { sending.body } else { nil } }
    /// Whether the request may be sent again even if it may already have arrived.
    package var sendsAgain: Bool { if case .send(let sending) = work { sending.sendsAgain } else { true } }

    /// Whether a restored request can be used. Another program may have changed it.
    var isSound: Bool {
        switch work {
        case .download(let download): download.place.isFileURL && download.options.isSound
        case .send(let sending): sending.body?.isSound ?? true
        case .upload(let upload): upload.file.isFileURL
        }
    }

    /// Returns a timeout that can be stored.
    static func timeout(_ seconds: TimeInterval) -> TimeInterval { seconds < 1e9 ? max(0, seconds) : 1e9 }
}

/// A header field of a stored request.
package struct HeaderLine: Sendable, Equatable, Codable {
    package var name: String
    package var value: String

    package init(name: String, value: String) {
        self.name = name
        self.value = value
    }
}

/// The settings of a download.
package struct StoredDownload: Sendable, Codable {
    package var place: URL
    package var isDirectory: Bool
    package var options = Options()

    /// The options that usually have the default values of `DownloadOperation`, and are stored only if they differ from
    /// those.
    package struct Options: Codable, Equatable, Sendable {
        var existing = ExistingFilePolicy.fail
        var usesServerFileName = true
        var checksums: [String] = []
        var pieceLength: Int64?
        var pieces: [String]?
        var expectedLength: Int64?
        var segments = 1
        var minimumSegment: Int64 = 1 << 20
        var mirrors: [String] = []
        var usesServerMirrors = false
        var synchronizes = false
        var keepsModificationDate = true

        /// Whether all checksums are readable: a file must not be downloaded without its verification.
        package var isSound: Bool { (checksums + (pieces ?? [])).allSatisfy { (try? Checksum(parsing: $0)) != nil } }
    }
}

extension StoredDownload.Options {
    private enum CodingKeys: String, CodingKey {
        case existing, usesServerFileName, checksums, pieceLength, pieces, expectedLength, segments, minimumSegment
        case mirrors, usesServerMirrors, synchronizes, keepsModificationDate
    }

    /// Decodes the options. A missing value is the default. A value that cannot be read is an error, because a file
    /// must not be downloaded with settings other than those requested.
    package init(from decoder: any Decoder) throws {
        self.init()
        let values = try decoder.container(keyedBy: CodingKeys.self)
        func read<Value: Decodable>(_ key: CodingKeys, _ value: inout Value) throws {
            value = try values.decodeIfPresent(Value.self, forKey: key) ?? value
        }
        try read(.existing, &existing)
        try read(.usesServerFileName, &usesServerFileName)
        try read(.checksums, &checksums)
        pieceLength = try values.decodeIfPresent(Int64.self, forKey: .pieceLength)
        pieces = try values.decodeIfPresent([String].self, forKey: .pieces)
        expectedLength = try values.decodeIfPresent(Int64.self, forKey: .expectedLength)
        try read(.segments, &segments)
        try read(.minimumSegment, &minimumSegment)
        try read(.mirrors, &mirrors)
        try read(.usesServerMirrors, &usesServerMirrors)
        try read(.synchronizes, &synchronizes)
        try read(.keepsModificationDate, &keepsModificationDate)
    }
}

/// The settings of an upload.
package struct StoredUpload: Sendable, Equatable, Codable {
    /// The file to send.
    package var file: URL
    /// The encoded `StoredUploadOptions`.
    package var options: Data

    package init(file: URL, options: Data) {
        self.file = file
        self.options = options
    }
}

/// The settings of a request to send.
package struct StoredSending: Sendable, Codable {
    package var body: StoredBody?
    package var sendsAgain: Bool

    package init(body: StoredBody?, sendsAgain: Bool) {
        self.body = body
        self.sendsAgain = sendsAgain
    }
}

/// A body in the folder of bodies.
package struct StoredBody: Sendable, Equatable, Codable {
    /// The name of the file.
    var name: String
    var length: Int64

    /// Whether the name was generated by the folder. The file of a body is removed with its entry, so its name must not
    /// lead to a different folder.
    var isSound: Bool { Self.isName(name) && length >= 0 }

    static func isName(_ text: String) -> Bool { UUID(uuidString: text) != nil }
}

// MARK: - Creating

extension StoredRequest {
    /// Returns the part of a request to store, and the secret header lines, which are not stored.
    ///
    /// - Parameter classifier: Classifies secret fields and query items.
    package static func storing(
        _ request: some StorableRequest, classifier: SecretClassifier
    ) throws(DownloadQueueError) -> (stored: StoredRequest, secrets: [HeaderLine]) {
        let work = try request.work()
        guard let url = request.request.url?.absoluteURL, Target(url) != nil else {
            throw .unsuitableRequest("The URL must be an http or https URL.")
        }
        for url in [url] + request.otherURLs {
            let text = url.absoluteString, shown = Redaction.url(text, classifier)
            guard !URLUserInfo.isPresent(in: text), request.storesSecretsInURL || shown.utf8.elementsEqual(text.utf8)
            else { throw .secretInURL(shown) }
        }
        var lines: [HeaderLine] = [], secrets: [HeaderLine] = []
        for (name, value) in request.request.allHTTPHeaderFields ?? [:] {
            guard isOneLine(name), isOneLine(value), !name.utf8.contains(UInt8(ascii: ":")) else {
                throw .unsuitableRequest("The header field \(name.debugDescription) contains a line break.")
            }
            let line = HeaderLine(name: name, value: value)
            // The key must be stored, even if it looks like a secret.
            let isSecret = !isKey(name) && !classifier.shown(name, value).utf8.elementsEqual(value.utf8)
            if isSecret { secrets.append(line) } else { lines.append(line) }
        }
        lines.sort { $0.name < $1.name }
        let method = request.request.httpMethod ?? "GET"
        let stored = StoredRequest(
            method: method, url: url, header: lines, timeout: timeout(request.request.timeoutInterval),
            work: work,
            withheld: secrets.map(\.name).sorted())
        return (stored, secrets)
    }

    private static func isKey(_ name: String) -> Bool { name.lowercased() == OutboxRequest.keyField.lowercased() }

    private static func isOneLine(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") && $0 != 0 }
    }

    /// Returns the header fields in a database of an earlier version, one per line.
    static func header(of text: String) -> [HeaderLine] {
        text.utf8.split(separator: UInt8(ascii: "\n")).compactMap { line in
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return nil }
            return HeaderLine(
                name: String(decoding: line[..<colon], as: UTF8.self),
                value: String(decoding: line[line.index(after: colon)...], as: UTF8.self))
        }
    }
}

// MARK: - Restoring

extension StoredRequest {
    /// Returns the request without a body, with the manager's header fields.
    func request(
        with secrets: [HeaderLine], _ manager: HTTPRequestOperationManager
    ) throws(DownloadQueueError) -> URLRequest {
        var request: URLRequest
        do {
            request = try manager.makeRequest(HTTPMethod(method), url)
        } catch {
            throw .unsuitableRequest("\(error)")
        }
        // The manager's `Content-Type` describes parameters, which the request does not have.
        request.setValue(nil, forHTTPHeaderField: "Content-Type")
        for line in header + secrets { request.setValue(line.value, forHTTPHeaderField: line.name) }
        request.timeoutInterval = timeout
        return request
    }

    /// Makes an operation fail before sending anything if the program has not provided the secrets that were not
    /// stored.
    package func requireWithheld(in operation: HTTPRequestOperation, _ error: @escaping @Sendable ([String]) -> any Error) {
        guard !withheld.isEmpty else { return }
        let prepare = operation.prepare
        let hasLogin = operation.credential != nil || operation.authenticator != nil
        operation.prepare = { [names = withheld] request in
            try prepare?(&request)
            let missing = names.filter { name in
                let isLogin = ASCII.equalIgnoringCase(name.utf8, "authorization".utf8)
                return request.value(forHTTPHeaderField: name) == nil && !(isLogin && hasLogin)
            }
            if !missing.isEmpty { throw error(missing) }
        }
    }
}

extension URLRequest {
    /// Declares a stored body to be bytes, unless the request has another type.
    mutating func setDefaultContentType() {
        guard value(forHTTPHeaderField: "Content-Type") == nil else { return }
        setValue("application/octet-stream", forHTTPHeaderField: "Content-Type")
    }
}

extension HTTPRequestOperation {
    /// Whether a failed request may have arrived: the server has not responded, and the error does not rule out that
    /// the request was sent.
    package final var mayHaveArrived: Bool {
        guard let error = error as? URLError else { return false }
        let unsent: Set<URLError.Code> = [
            .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed, .badURL, .unsupportedURL,
        ]
        if error.userInfo[URLError.nothingWasSentKey] as? Bool == true { return false }
        // After a redirect, the error may concern a different host.
        return !(unsent.contains(error.code) && redirects.isEmpty)
    }
}

extension StoredDownload {
    /// Applies the stored settings to a download.
    package func apply(to operation: DownloadOperation) {
        if isDirectory { operation.directory = place } else { operation.destination = place }
        operation.existingFilePolicy = options.existing
        operation.usesServerFileName = options.usesServerFileName
        operation.checksums = options.checksums.compactMap { try? Checksum(parsing: $0) }
        if let length = options.pieceLength, let pieces = options.pieces {
            operation.pieceChecksums = PieceChecksums(
                length: length, checksums: pieces.compactMap { try? Checksum(parsing: $0) })
        }
        operation.expectedLength = options.expectedLength
        operation.segmentCount = options.segments
        operation.minimumSegmentLength = options.minimumSegment
        operation.mirrors = options.mirrors.compactMap { URL(string: $0) }
        operation.usesServerMirrors = options.usesServerMirrors
        // A stored result is final, so its file must survive a power failure.
        operation.synchronizesFile = true
        operation.keepsModificationDate = options.keepsModificationDate
    }
}

// MARK: - Leftovers

extension StoredRequest {
    /// Removes the files that an incomplete request has left: the partial file of a download, unless another download is
    /// using it, or the journal of an upload. Blocks.
    ///
    /// - Parameters:
    ///   - url: The URL to which the request was sent.
    ///   - file: The destination of a download, if it is known.
    func removeLeftovers(at url: URL, _ file: URL?) {
        switch work {
        case .download(let download):
            let paths = download.partialPaths(at: url, file)
            guard access(paths.partial, F_OK) == 0 || access(paths.journal, F_OK) == 0 else { return }
            let file = DownloadFile(paths)
            guard (try? file.open()) != nil else { return }
            file.discard()
        case .upload(let upload):
            // The finished operation releases the journal on another thread.
            for _ in 0..<100 {
                do throws(UploadError) {
                    return try UploadOperation.removeJournal(of: upload.file, for: url)
                } catch {
                    guard error.reason == .inUse else { return }
                    usleep(10_000)
                }
            }
        case .send: break
        }
    }

    /// Removes the journal of a download whose process was killed after it had moved the file to its destination. Blocks.
    func removeJournal(ofCommitted file: URL) {
        guard case .download(let download) = work else { return }
        DownloadFile(download.partialPaths(at: url, file)).removeJournal(ofCommittedFileAt: file.path)
    }
}

extension StoredDownload {
    /// Returns the paths of the partial file and the journal.
    fileprivate func partialPaths(at url: URL, _ file: URL?) -> PartialPaths {
        isDirectory && (options.usesServerFileName || file == nil)
            ? PartialPaths(directory: place.path, url: url)
            : PartialPaths(following: (file ?? place).standardizedFileURL.path)
    }
}
