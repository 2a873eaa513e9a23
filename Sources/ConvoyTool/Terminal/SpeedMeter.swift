/// The speed of a transfer, measured over the last seconds.
struct SpeedMeter {
    private var samples: [(time: ContinuousClock.Instant, bytes: Int64)] = []
    private static let window = Duration.seconds(4)

    /// Notes the progress. Called a few times per second.
    mutating func note(_ bytes: Int64, at time: ContinuousClock.Instant) {
        // The transfer has started over: the old samples are of an earlier attempt.
        if let last = samples.last, bytes < last.bytes { samples = [] }
        samples.append((time, bytes))
        while samples.count > 2, let first = samples.first, time - first.time > Self.window { samples.removeFirst() }
    }

    /// Bytes per second; nil while it is unknown.
    var speed: Double? {
        guard let first = samples.first, let last = samples.last else { return nil }
        let time = (last.time - first.time).seconds
        return time >= 0.2 ? Double(last.bytes - first.bytes) / time : nil
    }
}
