import Convoy
import Foundation

/// The bar of one transfer: it hears how far that is, and has it drawn on the board.
final class TransferBar: ProgressView, Sendable {
    private let transfer: Transfer
    private let board: TransferBoard

    init(_ transfer: Transfer, on board: TransferBoard) { (self.transfer, self.board) = (transfer, board) }

    func setProgress(_ fraction: Double?, of progress: TransferProgress) {
        // The body of an error response is not a download.
        guard let status = transfer.operation.statusCode, (200..<300).contains(status) else { return }
        let fetched = transfer.fetchedByteCount(progress)
        // What was there before, and is not asked for again, needs no bar.
        guard fetched > 0 else { return }
        board.note(
            transfer, fetched: fetched, done: progress.bytesReceived, expected: progress.bytesExpectedToReceive)
    }
}
