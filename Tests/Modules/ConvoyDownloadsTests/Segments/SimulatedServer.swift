import ConvoyDownloads
import ConvoyTestSupport
import ConvoyTransport
import Foundation

/// Simulated servers with all behaviours of real servers, except that they never send bytes other than those they
/// announce.
struct SimulatedServers {
    /// The version of a file at some time. Its bytes are identified by its number and their positions.
    struct Version: Equatable {
        let number: Int
        let length: Int
        let tag: String?
        let modified: String?
    }

    /// The data that a server sends after a head.
    struct Answer {
        let head: ResponseHead?
        var version = 0
        /// The position of the next byte, and the end.
        var position = 0
        var end = 0
        /// Whether the connection fails at the end.
        var isCut = false
    }

    private static let dates = (1...9).map { "Mon, 0\($0) Jan 2024 10:00:00 GMT" }
    let places: [URL]
    /// The current version of each location's file.
    private(set) var versions: [Version]
    private var nextVersion = 0
    private let hasTags: Bool
    private let hasDates: Bool
    private let lengths: [Int]
    private let sharesVersions: Bool
    private let announcesRanges: Bool
    private let honesty: Int

    init(_ urls: [URL], _ random: inout SplitMix64) {
        // Some URLs lead to the same location.
        places = urls.map { url in Int.random(in: 0..<4, using: &random) == 0 ? urls[0] : url }
        hasTags = Int.random(in: 0..<5, using: &random) > 0
        hasDates = Bool.random(using: &random)
        let length = Int.random(in: 1...40, using: &random)
        lengths = Bool.random(using: &random) ? [length] : [length, length + 1, max(1, length / 2)]
        sharesVersions = Bool.random(using: &random)
        announcesRanges = Int.random(in: 0..<4, using: &random) > 0
        honesty = [3, 10, 30].randomElement(using: &random) ?? 10
        versions = []
        for _ in urls { versions.append(makeVersion(&random)) }
        if sharesVersions { versions = versions.map { _ in versions[0] } }
    }

    private mutating func makeVersion(_ random: inout SplitMix64) -> Version {
        defer { nextVersion += 1 }
        let number = nextVersion
        let tags = ["\"\(number)\"", "\"\(number)\"", "\"\(number)\"", "W/\"\(number)\""]
        return Version(
            number: number, length: lengths.randomElement(using: &random) ?? 1,
            tag: hasTags ? tags.randomElement(using: &random) : nil,
            modified: hasDates && number < Self.dates.count ? Self.dates[number] : nil)
    }

    /// Returns the index of a URL's location.
    private func place(of url: URL, in urls: [URL]) -> Int {
        let index = urls.firstIndex(of: url) ?? 0
        return urls.firstIndex(of: places[index]) ?? index
    }

    /// Changes the file at a random location.
    mutating func change(_ random: inout SplitMix64) {
        let index = Int.random(in: 0..<versions.count, using: &random)
        versions[index] = makeVersion(&random)
        if sharesVersions, Bool.random(using: &random) { versions = versions.map { _ in versions[index] } }
    }

    mutating func answer(_ request: PartRequest, _ urls: [URL], _ random: inout SplitMix64) -> Answer {
        let place = place(of: request.url, in: urls)
        let version = versions[place]
        let isHonest = Int.random(in: 0..<honesty, using: &random) > 0
        let oddity = isHonest ? -1 : Int.random(in: 0..<10, using: &random)
        let url = places[urls.firstIndex(of: request.url) ?? 0]
        var fields: [(String, String)] = [("Date", "Fri, 01 Mar 2024 10:00:00 GMT")]
        if oddity != 0 {
            if let tag = version.tag { fields.append(("ETag", tag)) }
            if let modified = version.modified { fields.append(("Last-Modified", modified)) }
        }
        if announcesRanges { fields.append(("Accept-Ranges", "bytes")) }
        func head(_ status: Int, _ more: [(String, String)]) -> ResponseHead {
            ResponseHead(url: url, statusCode: status, headers: fields + more)
        }
        switch oddity {
        case 1: return Answer(head: nil, isCut: true)
        case 2: return Answer(head: head([404, 500, 503].randomElement(using: &random) ?? 500, [("Content-Length", "0")]))
        case 3: return Answer(head: head(416, [("Content-Range", "bytes */\(version.length)")]))
        default: break
        }
        var first = request.range.map { Int($0.first) }
        let isSame = request.condition == nil || request.condition == version.tag || request.condition == version.modified
        if oddity == 4 || !isSame && oddity != 5 { first = nil }
        guard let first else { return whole(head, version, oddity, &random) }
        guard first < version.length else {
            return Answer(head: head(416, [("Content-Range", "bytes */\(version.length)")]))
        }
        return part(head, version, first, Int(request.range?.last ?? .max), oddity, &random)
    }

    private func whole(
        _ head: (Int, [(String, String)]) -> ResponseHead, _ version: Version, _ oddity: Int, _ random: inout SplitMix64
    ) -> Answer {
        var answer = Answer(head: nil, version: version.number, position: 0, end: version.length)
        let tellsLength = Int.random(in: 0..<8, using: &random) > 0
        if Int.random(in: 0..<6, using: &random) == 0 {
            answer.end = Int.random(in: 0...version.length, using: &random)
            answer.isCut = true
        }
        var fields: [(String, String)] = []
        if tellsLength { fields.append(("Content-Length", "\(version.length)")) }
        if oddity == 6 { fields.append(("Content-Encoding", "gzip")) }
        return Answer(
            head: head(200, fields), version: answer.version, position: 0, end: answer.end, isCut: answer.isCut)
    }

    private func part(
        _ head: (Int, [(String, String)]) -> ResponseHead, _ version: Version, _ first: Int, _ last: Int, _ oddity: Int,
        _ random: inout SplitMix64
    ) -> Answer {
        var (start, end) = (first, min(last, version.length - 1) + 1)
        if oddity == 7 { start = Int.random(in: 0..<end, using: &random) }
        if oddity == 8 { end = Int.random(in: start..<end, using: &random) + 1 }
        if Int.random(in: 0..<10, using: &random) == 0 { end = version.length }
        var fields: [(String, String)] = []
        if oddity != 9 { fields.append(("Content-Range", "bytes \(start)-\(end - 1)/\(version.length)")) }
        var answer = Answer(head: nil, version: version.number, position: start, end: end)
        if Int.random(in: 0..<4, using: &random) > 0 {
            fields.append(("Content-Length", "\(end - start)"))
        } else if Int.random(in: 0..<4, using: &random) == 0 {
            // The server sends more or fewer bytes than announced.
            answer.end = Int.random(in: start...end + 3, using: &random)
        }
        if Int.random(in: 0..<6, using: &random) == 0 {
            answer.end = Int.random(in: start...answer.end, using: &random)
            answer.isCut = true
        }
        return Answer(
            head: head(206, fields), version: answer.version, position: start, end: answer.end, isCut: answer.isCut)
    }
}
