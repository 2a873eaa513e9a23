import ConvoySupport
import Foundation

/// System calls of which one fails, or all from one call on.
final class FailingCalls: Sendable {
    enum Name: String, CaseIterable, Sendable {
        case open, lock, duplicate, close, rename, renameWithoutReplacing, link, name, writeAt, readAt, truncate, allocate
        case synchronizeData, synchronize, setModificationTime, unlink
    }

    enum Manner: Sendable, Hashable {
        case once(Int32)
        /// The call and all later ones fail.
        case always(Int32)
        /// The call writes or reads only some of the bytes.
        case short
    }

    /// The call that fails, counted from 0, and how it fails.
    let name: Name
    let number: Int
    let manner: Manner
    private let counts = Locked<[Name: Int]>([:])

    init(_ name: Name, number: Int, _ manner: Manner) {
        (self.name, self.number, self.manner) = (name, number, manner)
    }

    /// Whether enough calls were made for one to fail.
    var hasFailed: Bool { counts.withLock { $0[name] ?? 0 } > number }

    private func failure(of called: Name) -> Manner? {
        let index = counts.withLock { counts -> Int in
            defer { counts[called, default: 0] += 1 }
            return counts[called] ?? 0
        }
        guard called == name else { return nil }
        if case .always = manner { return index >= number ? manner : nil }
        return index == number ? manner : nil
    }

    /// Returns the error to return; nil to make the call.
    private func error(of called: Name) -> Int32? {
        switch failure(of: called) {
        case .once(let code)?, .always(let code)?: code
        case .short?, nil: nil
        }
    }

    private func checked(_ called: Name, _ call: () -> Int32) -> Int32 {
        guard let code = error(of: called) else { return call() }
        errno = code
        return -1
    }

    private func checked(_ called: Name, _ count: Int, _ call: (_ count: Int) -> Int) -> Int {
        switch failure(of: called) {
        case nil: return call(count)
        case .short: return call(max(1, count / 3))
        case .once(let code), .always(let code):
            errno = code
            return -1
        }
    }

    var calls: FileCalls {
        let real = FileCalls.withoutWaiting
        var calls = real
        calls.open = { [self] path, flags, mode in checked(.open) { real.open(path, flags, mode) } }
        calls.lock = { [self] descriptor in checked(.lock) { real.lock(descriptor) } }
        calls.duplicate = { [self] descriptor in checked(.duplicate) { real.duplicate(descriptor) } }
        calls.close = { [self] descriptor in
            // The descriptor is closed regardless of the result of `close`.
            let result = real.close(descriptor)
            return checked(.close) { result }
        }
        calls.rename = { [self] path, new in checked(.rename) { real.rename(path, new) } }
        calls.renameWithoutReplacing = { [self] path, new in
            checked(.renameWithoutReplacing) { real.renameWithoutReplacing(path, new) }
        }
        calls.link = { [self] path, new in checked(.link) { real.link(path, new) } }
        calls.name = { [self] descriptor, path in checked(.name) { real.name(descriptor, path) } }
        calls.writeAt = { [self] descriptor, bytes, offset in
            checked(.writeAt, bytes.count) { count in
                real.writeAt(descriptor, UnsafeRawBufferPointer(rebasing: bytes.prefix(count)), offset)
            }
        }
        calls.readAt = { [self] descriptor, bytes, offset in
            checked(.readAt, bytes.count) { count in
                real.readAt(descriptor, UnsafeMutableRawBufferPointer(rebasing: bytes.prefix(count)), offset)
            }
        }
        calls.truncate = { [self] descriptor, length in checked(.truncate) { real.truncate(descriptor, length) } }
        calls.allocate = { [self] descriptor, length in checked(.allocate) { real.allocate(descriptor, length) } }
        calls.synchronizeData = { [self] descriptor in checked(.synchronizeData) { real.synchronizeData(descriptor) } }
        calls.synchronize = { [self] descriptor in checked(.synchronize) { real.synchronize(descriptor) } }
        calls.setModificationTime = { [self] descriptor, time in
            checked(.setModificationTime) { real.setModificationTime(descriptor, time) }
        }
        calls.unlink = { [self] path in checked(.unlink) { real.unlink(path) } }
        return calls
    }
}

/// A clock that advances by a number of nanoseconds whenever it is read.
final class JumpingClock: Sendable {
    private let time = Locked<UInt64>(1 << 40)
    private let step: UInt64

    init(step: UInt64) { self.step = step }

    var now: UInt64 {
        time.withLock { time in
            time += step
            return time
        }
    }
}
