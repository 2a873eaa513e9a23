import ConvoyTestSupport

/// A disk that keeps everything that was synchronized, and an arbitrary part of the rest.
///
/// Of the unsynchronized calls, the disk may keep all, none, one, or all but one; names without contents, and contents
/// without names; lengths without bytes, which are then zeros; and half of the last write. Synchronizing a file secures
/// its writes and truncations; synchronizing the directory secures the names in it. A renaming is kept or lost, but
/// never half of it.
struct DiskModel {
    private(set) var secured: DiskContents
    private(set) var pending: [DiskCall] = []

    init(_ contents: DiskContents) { secured = contents }

    /// The contents as seen by a running system.
    var visible: DiskContents { applying(pending) }

    mutating func apply(_ call: DiskCall) {
        switch call {
        case .synchronize(let file): secure { Self.file(of: $0) == file }
        case .synchronizeDirectory: secure { Self.file(of: $0) == nil }
        default: pending.append(call)
        }
    }

    private mutating func secure(_ isSecured: (DiskCall) -> Bool) {
        secured = applying(pending.filter(isSecured))
        pending.removeAll(where: isSecured)
    }

    /// Returns the file whose contents a call changes; nil if it changes names.
    private static func file(of call: DiskCall) -> Int? {
        switch call {
        case .write(let file, _, _), .truncate(let file, _): file
        default: nil
        }
    }

    private func applying(_ calls: [DiskCall]) -> DiskContents {
        var contents = secured
        for call in calls { contents.apply(call) }
        return contents
    }

    /// Returns one of the possible contents after a power failure.
    func afterPowerCut(_ random: inout SplitMix64) -> DiskContents {
        let kept = Int.random(in: 0...4, using: &random)
        return applying(pending.filter { _ in Int.random(in: 0..<4, using: &random) < kept })
    }

    /// Returns possible contents after a power failure. The entries of the journal are shorter than a sector, or torn
    /// at a sector boundary.
    func afterPowerCut() -> [DiskContents] {
        var outcomes = [applying([]), applying(pending)]
        for index in pending.indices {
            outcomes.append(applying([pending[index]]))
            outcomes.append(applying(pending.enumerated().filter { $0.offset != index }.map(\.element)))
            outcomes.append(applying(Array(pending[...index])))
        }
        let names = pending.filter { Self.file(of: $0) == nil }
        let contents = pending.filter { Self.file(of: $0) != nil }
        outcomes += [applying(names), applying(contents)]
        // Lengths may be on the disk without their bytes.
        let holes = pending.map { call -> DiskCall in
            guard case .write(let file, let offset, let bytes) = call,
                offset + bytes.count > secured.files[file]?.count ?? 0
            else { return call }
            let old = Array((secured.files[file] ?? []).dropFirst(offset).prefix(bytes.count))
            return .write(file: file, offset: offset, bytes: old + [UInt8](repeating: 0, count: bytes.count - old.count))
        }
        outcomes.append(applying(holes))
        // Half of the last write may be on the disk, ending before or after a sector boundary.
        if let last = pending.lastIndex(where: { Self.file(of: $0) != nil }),
            case .write(let file, let offset, let bytes) = pending[last], bytes.count > 1
        {
            let middle = bytes.count > 1024 ? bytes.count / 1024 * 512 : bytes.count / 2
            let before = Array(pending[..<last])
            outcomes.append(applying(before + [.write(file: file, offset: offset, bytes: Array(bytes[..<middle]))]))
            outcomes.append(
                applying(before + [.write(file: file, offset: offset + middle, bytes: Array(bytes[middle...]))]))
        }
        return outcomes
    }
}
