import Synchronization

/// The numbers of a transfer's progress, which any thread may read; -1 for one that is not known.
struct TransferCounts: ~Copyable {
    let bytesReceived = Atomic<Int64>(0)
    let bytesExpectedToReceive = Atomic<Int64>(-1)
    let bytesSent = Atomic<Int64>(0)
    let bytesExpectedToSend = Atomic<Int64>(-1)

    var progress: TransferProgress {
        func known(_ number: Int64) -> Int64? { number < 0 ? nil : number }
        var progress = TransferProgress()
        progress.bytesReceived = bytesReceived.load(ordering: .relaxed)
        progress.bytesExpectedToReceive = known(bytesExpectedToReceive.load(ordering: .relaxed))
        progress.bytesSent = bytesSent.load(ordering: .relaxed)
        progress.bytesExpectedToSend = known(bytesExpectedToSend.load(ordering: .relaxed))
        return progress
    }
}
