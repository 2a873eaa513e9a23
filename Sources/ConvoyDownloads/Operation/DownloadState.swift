import ConvoyOperations
import ConvoyTransport
import Foundation

/// What a download knows, and what it is doing. Guarded by its lock.
struct DownloadState: @unchecked Sendable {
    /// What a try is doing.
    enum Stage {
        /// There is no try, or it has ended.
        case idle
        /// The files are being opened.
        case opening
        /// There is at least one part.
        case fetching
        /// All bytes are there, and are being checked.
        case finishing
    }

    /// Why a part has failed.
    struct Failure: @unchecked Sendable {
        let error: any Error
        var head: ResponseHead?
        var data: Data?
        var object: Any?
        /// Whether the server has answered with a status that is not acceptable.
        var isOfStatus = false
        /// Whether no retry would help.
        var isFinal = false
    }

    var stage = Stage.idle
    var work: OwnWork?
    /// Whether the operation has asked the try to stop.
    var isStopping = false
    /// Whether all parts are being stopped, because the file is another one.
    var isRestarting = false
    var plan: DownloadPlan
    var operations: [Int: HTTPRequestOperation] = [:]
    /// The parts whose bytes are being written, and those of them that have ended meanwhile.
    var writing: Set<Int> = []
    var endedWhileWriting: [Int: HTTPRequestOperation] = [:]
    /// How parts end that were stopped from here.
    var ends: [Int: DownloadPlan.End] = [:]
    var failures: [Int: Failure] = [:]
    /// Why the try ends, whatever else happens.
    var fatal: Failure?
    var file: DownloadFile?
    /// Where the file is to be; nil as long as the name is not known.
    var finalURL: URL?
    var finalPath: String?
    /// The head by which the file is accepted.
    var head: ResponseHead?
    /// That of an earlier try.
    var earlierHead: ResponseHead?
    var outcome: DownloadOutcome?
    var meter = RateMeter()
    /// The bytes that each source has sent.
    var contributions: [Int: ByteRanges] = [:]
    var expected: [Checksum] = []
    /// Those of the whole file, which the user wants to know.
    var computed: [Checksum] = []
    var verifiedPieces = ByteRanges()
    /// How often each piece was wrong.
    var rejections: [Int: Int] = [:]
    var distrusts = 0
    /// What a file that is there was stored with, if the server is asked whether it has changed.
    var condition: StoredValidators?
    var isOpen = false
    /// The length that was known of what was there, where the server has a file of another length now.
    var earlierLength: Int64?
    /// The file that is there, where the download goes on with it.
    var existing: Download.Existing?
}
