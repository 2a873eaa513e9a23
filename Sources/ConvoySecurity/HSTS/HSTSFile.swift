import ConvoySupport
import Foundation

/// A file of known hosts, which several processes may share. All its methods block.
///
/// The format is text: a first line that names the format, and a line for each host with its name, when it expires,
/// when it was noted, and the flags `s` (includes subdomains) and `w` (withdrawn), or `-`.
///
/// The path may be a symbolic link that belongs to this user or root: the file it leads to is read and replaced.
struct HSTSFile: Sendable {
    let path: String

    private static let title = "Convoy-HSTS 1"
    /// The maximum size of a file, in bytes.
    private static let limit = 16 << 20

    /// Reads the records of the file; none if it is missing or empty.
    func read() throws(HSTSStoreError) -> HSTSRecords {
        let descriptor: Int32
        do throws(PrivateFile.Failure) {
            descriptor = try PrivateFile.open(try PrivateFile.target(of: path))
        } catch {
            switch error {
            case .system(let cause) where cause.code == ENOENT: return HSTSRecords()
            case .system(let cause): throw .cannotRead(path, reason: cause.text)
            case .unsafe(let flaw): throw .isUnsafe(path, reason: flaw.reason)
            }
        }
        defer { close(descriptor) }
        return try read(descriptor)
    }

    private func read(_ descriptor: Int32) throws(HSTSStoreError) -> HSTSRecords {
        let bytes: [UInt8]
        do throws(FileContents.Failure) {
            bytes = try FileContents.read(descriptor, limit: Self.limit)
        } catch {
            throw .cannotRead(path, reason: error.reason)
        }
        return try records(in: bytes)
    }

    private func records(in bytes: [UInt8]) throws(HSTSStoreError) -> HSTSRecords {
        var records = HSTSRecords()
        guard !bytes.isEmpty else { return records }
        // A file whose last line has no end was cut off.
        guard bytes.last == UInt8(ascii: "\n") else {
            throw .isDamaged(path, line: bytes.count { $0 == UInt8(ascii: "\n") } + 1)
        }
        let lines = bytes.dropLast().split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            let text = String(decoding: line, as: UTF8.self)
            if index == 0 {
                guard text == Self.title else { throw .isDamaged(path, line: 1) }
                continue
            }
            let parts = text.split(separator: " ", omittingEmptySubsequences: false)
            guard parts.count == 4, HSTSRecords.name(of: String(parts[0])) == String(parts[0]),
                let expires = Int64(parts[1]), let noted = Int64(parts[2]), expires >= 0, noted >= 0,
                ["-", "s", "w", "sw"].contains(parts[3])
            else { throw .isDamaged(path, line: index + 1) }
            records.insert(
                HSTSRecord(
                    includesSubdomains: parts[3].contains("s"), expires: expires, noted: noted,
                    isWithdrawn: parts[3].contains("w")),
                String(parts[0]))
        }
        return records
    }

    /// Adds records to the file, and returns all records of the file.
    ///
    /// The file is locked meanwhile, so that nothing is lost that another process adds, and replaced as a whole, so
    /// that other processes never see half of it. Only its owner may read it.
    func merge(_ own: HSTSRecords, at now: Int64) throws(HSTSStoreError) -> HSTSRecords {
        let target: String, lock: Int32
        do throws(PrivateFile.Failure) {
            target = try PrivateFile.target(of: path)
            lock = try lockedFile(target)
        } catch {
            throw failure(error)
        }
        defer { close(lock) }
        var all = try read(lock)
        let before = all
        all.limit = own.limit
        all.merge(own, at: now)
        guard all.records != before.records else { return all }
        var lines = [Self.title]
        for (host, record) in all.records.sorted(by: { $0.key < $1.key }) {
            let marks = (record.includesSubdomains ? "s" : "") + (record.isWithdrawn ? "w" : "")
            lines.append("\(host) \(record.expires) \(record.noted) \(marks.isEmpty ? "-" : marks)")
        }
        let bytes = Array((lines.joined(separator: "\n") + "\n").utf8)
        do throws(PrivateFile.Failure) {
            try PrivateFile.replace(target, with: bytes)
        } catch {
            throw failure(error)
        }
        return all
    }

    private func failure(_ error: PrivateFile.Failure) -> HSTSStoreError {
        switch error {
        case .system(let cause): .cannotWrite(path, reason: cause.text)
        case .unsafe(let flaw): .isUnsafe(path, reason: flaw.reason)
        }
    }

    /// Opens and locks the file; creates it if needed.
    private func lockedFile(_ target: String) throws(PrivateFile.Failure) -> Int32 {
        while true {
            let descriptor = try PrivateFile.openOrCreate(target)
            while flock(descriptor, LOCK_EX) != 0, errno == EINTR {}
            // Another process may have replaced it while this one waited.
            let own = FileIdentity(descriptor)
            if own != nil, own == FileIdentity(target) { return descriptor }
            close(descriptor)
        }
    }
}
