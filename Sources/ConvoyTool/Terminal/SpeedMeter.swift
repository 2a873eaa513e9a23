/// The speed of a transfer, measured over the last seconds.
struct SpeedMeter {
    private var samples: [(time: ContinuousClock.Instant, bytes: Int64)]
    private static let window = Duration.seconds(4)

    /// A meter of a transfer of which nothing has arrived yet.
    init(at time: ContinuousClock.Instant) { samples = [(time, 0)] }

    /// Notes how many bytes have arrived since the beginning: without those that were there before, and with those that
    /// have arrived again. To be called a few times per second, also if nothing has arrived.
    mutating func note(_ bytes: Int64, at time: ContinuousClock.Instant) {
        samples.append((time, bytes))
        while samples.count > 2, time - samples[1].time >= Self.window { samples.removeFirst() }
    }

    /// Bytes per second; nil while it is unknown, 0 if nothing has arrived in the last seconds.
    var speed: Double? {
        guard let first = samples.first, let last = samples.last else { return nil }
        let time = (last.time - first.time).seconds
        return time >= 0.2 ? Double(last.bytes - first.bytes) / time : nil
    }
}
