/// Those who wait at a rate limit, in the order in which they came. Every call takes constant time on average.
struct WaitingLine {
    /// From `start` on; nil for one who has left.
    private var places: [RateWaiter?] = []
    private var start = 0
    /// The number of the first element of `places`.
    private var offset = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    var first: RateWaiter? { start < places.count ? places[start] : nil }

    /// Adds one who is in no line.
    mutating func append(_ waiter: RateWaiter) {
        waiter.place = offset + places.count
        places.append(waiter)
        count += 1
    }

    /// Removes one from any place. Does nothing if it is not in the line.
    mutating func remove(_ waiter: RateWaiter) {
        guard let place = waiter.place else { return }
        waiter.place = nil
        places[place - offset] = nil
        count -= 1
        while start < places.count, places[start] == nil { start += 1 }
        if places.count > 32, count < places.count / 2 { closeGaps() }
    }

    private mutating func closeGaps() {
        offset += places.count
        places = places.filter { $0 != nil }
        start = 0
        for (index, waiter) in places.enumerated() { waiter?.place = offset + index }
    }
}
