import ConvoySupport
import Foundation
import FoundationNetworking

/// What is stored of a request. It never changes.
struct StoredRequest: Sendable {
    enum Work: Sendable {
        case download(StoredDownload)
        case send(StoredSending)
    }

    var method: String
    var url: URL
    var header: [HeaderLine]
    /// Seconds without a byte.
    var timeout: TimeInterval
    var work: Work
    /// The names of the header fields that are not stored, as they hold secrets.
    var withheld: [String] = []

    var body: StoredBody? { if case .send(let sending) = work { sending.body } else { nil } }
    /// Whether the request may be sent although it may have arrived before.
    var sendsAgain: Bool { if case .send(let sending) = work { sending.sendsAgain } else { true } }
}

/// A line of a header.
struct HeaderLine: Sendable, Equatable {
    var name: String
    var value: String
}

/// A download's own part.
struct StoredDownload: Sendable {
    var place: URL
    var isDirectory: Bool
    var options = Options()

    /// What is mostly as in a new `DownloadOperation`, and is stored only if it is not.
    struct Options: Codable, Equatable, Sendable {
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

        /// Whether the checksums can be read: nothing must be downloaded without the check that it was to have.
        var isSound: Bool { (checksums + (pieces ?? [])).allSatisfy { (try? Checksum(parsing: $0)) != nil } }
    }
}

extension StoredDownload.Options {
    private enum CodingKeys: String, CodingKey {
        case existing, usesServerFileName, checksums, pieceLength, pieces, expectedLength, segments, minimumSegment
        case mirrors, usesServerMirrors, synchronizes, keepsModificationDate
    }

    /// What a version did not know is as in a new download. What is there and cannot be read is an error: nothing must be
    /// downloaded in another way than was asked for.
    init(from decoder: any Decoder) throws {
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

/// The part of a request that sends.
struct StoredSending: Sendable {
    var body: StoredBody?
    var sendsAgain: Bool
}

/// A body in the folder of bodies.
struct StoredBody: Sendable, Equatable {
    /// The name of the file.
    var name: String
    var length: Int64
}

// MARK: - Making

extension StoredRequest {
    /// What is stored of a request, and the header lines that are not, as they are secrets.
    ///
    /// - Parameter classifier: says which fields and query items are secrets.
    static func storing(
        _ request: some StorableRequest, classifier: SecretClassifier
    ) throws(DownloadQueueError) -> (stored: StoredRequest, secrets: [HeaderLine]) {
        let work = try request.work()
        guard let url = request.request.url?.absoluteURL, Target(url) != nil else {
            throw .unsuitableRequest("Its URL is none of HTTP.")
        }
        for url in [url] + request.otherURLs {
            let text = url.absoluteString, shown = Redaction.url(text, classifier)
            guard !URLUserInfo.isPresent(in: text), request.storesSecretsInURL || shown.utf8.elementsEqual(text.utf8)
            else { throw .secretInURL(shown) }
        }
        var lines: [HeaderLine] = [], secrets: [HeaderLine] = []
        for (name, value) in request.request.allHTTPHeaderFields ?? [:] {
            guard isOneLine(name), isOneLine(value), !name.utf8.contains(UInt8(ascii: ":")) else {
                throw .unsuitableRequest("The header field \(name.debugDescription) has a line break.")
            }
            let line = HeaderLine(name: name, value: value)
            // The key must be stored, whatever it looks like.
            let isSecret = !isKey(name) && !classifier.shown(name, value).utf8.elementsEqual(value.utf8)
            if isSecret { secrets.append(line) } else { lines.append(line) }
        }
        lines.sort { $0.name < $1.name }
        let method = request.request.httpMethod ?? "GET"
        let stored = StoredRequest(
            method: method, url: url, header: lines, timeout: request.request.timeoutInterval, work: work,
            withheld: secrets.map(\.name).sorted())
        return (stored, secrets)
    }

    private static func isKey(_ name: String) -> Bool { name.lowercased() == OutboxRequest.keyField.lowercased() }

    private static func isOneLine(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") && $0 != 0 }
    }

    /// The header as one text.
    var headerText: String { header.map { "\($0.name):\($0.value)\n" }.joined() }

    static func header(of text: String) -> [HeaderLine] {
        text.utf8.split(separator: UInt8(ascii: "\n")).compactMap { line in
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return nil }
            return HeaderLine(
                name: String(decoding: line[..<colon], as: UTF8.self),
                value: String(decoding: line[line.index(after: colon)...], as: UTF8.self))
        }
    }
}
