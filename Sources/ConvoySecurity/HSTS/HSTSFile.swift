import ConvoySupport
import Foundation

/// A file of known HSTS hosts, which several processes can share. All methods block.
///
/// The format is text. The first line identifies the format. Each of the following lines describes a host: its name,
/// the expiry of its policy, the time it was recorded, and the flags `s` (includes subdomains) and `w` (withdrawn), or
/// `-`. Files in curl's format (`curl --hsts`) are also supported, and keep their format.
///
/// The path may be a symbolic link that belongs to the current user or root. The file it leads to is read and replaced.
struct HSTSFile: Sendable {
    let path: String

    private static let title = "Convoy-HSTS 1"
    /// The maximum size of a file, in bytes.
    private static let limit = 16 << 20

    /// The format of a file.
    enum Format { case own, curl }

    /// Reads the records of the file. The result is empty if the file is missing or empty.
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
        return try read(descriptor).records
    }

    private func read(_ descriptor: Int32) throws(HSTSStoreError) -> (records: HSTSRecords, format: Format) {
        let bytes: [UInt8]
        do throws(FileContents.Failure) {
            bytes = try FileContents.read(descriptor, limit: Self.limit)
        } catch {
            throw .cannotRead(path, reason: error.reason)
        }
        return try read(bytes)
    }

    /// Returns the records and the format of a file with the given contents.
    func read(_ bytes: [UInt8]) throws(HSTSStoreError) -> (records: HSTSRecords, format: Format) {
        if let records = Self.curlRecords(in: bytes) { return (records, .curl) }
        return (try records(in: bytes), .own)
    }

    /// Returns the records of a file in curl's format, or nil for other files. Each line of the format contains a host,
    /// with a leading dot if subdomains are included, and its expiry.
    private static func curlRecords(in bytes: [UInt8]) -> HSTSRecords? {
        guard !bytes.isEmpty, !bytes.starts(with: title.utf8) else { return nil }
        var records = HSTSRecords()
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            let text = String(decoding: line, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
            guard !text.isEmpty, !text.hasPrefix("#") else { continue }
            let parts = text.split(separator: " ", maxSplits: 1)
            guard parts.count == 2, let expires = curlTime(parts[1]) else { return nil }
            let includesSubdomains = parts[0].hasPrefix(".")
            guard let name = HSTSRecords.name(of: String(parts[0].drop { $0 == "." })) else { return nil }
            records.insert(
                HSTSRecord(includesSubdomains: includesSubdomains, expires: expires, noted: 0), name)
        }
        return !records.records.isEmpty || bytes.first == UInt8(ascii: "#") ? records : nil
    }

    /// Returns the seconds since 1970 for `"20261231 23:59:59"` (in UTC) or `"unlimited"`.
    private static func curlTime(_ text: Substring) -> Int64? {
        guard text.hasPrefix("\""), text.hasSuffix("\""), text.utf8.count > 2 else { return nil }
        let content = text.dropFirst().dropLast()
        if content == "unlimited" { return farFuture }
        let digits = content.utf8.filter(ASCII.isDigit)
        guard content.utf8.count == 17, digits.count == 14 else { return nil }
        func number(_ range: Range<Int>) -> Int32 { Int32(String(decoding: digits[range], as: UTF8.self)) ?? 0 }
        var time = tm()
        (time.tm_year, time.tm_mon, time.tm_mday) = (number(0..<4) - 1900, number(4..<6) - 1, number(6..<8))
        (time.tm_hour, time.tm_min, time.tm_sec) = (number(8..<10), number(10..<12), number(12..<14))
        return max(0, Int64(timegm(&time)))
    }

    /// The latest time that libcurl can represent. It stands for an unlimited policy.
    private static let farFuture: Int64 = 253_402_300_799

    private static func curlLine(_ host: String, _ record: HSTSRecord) -> String {
        var expires = time_t(min(record.expires, farFuture)), time = tm()
        gmtime_r(&expires, &time)
        let day = String(format: "%d%02d%02d", Int(time.tm_year) + 1900, Int(time.tm_mon) + 1, Int(time.tm_mday))
        let clock = String(format: "%02d:%02d:%02d", Int(time.tm_hour), Int(time.tm_min), Int(time.tm_sec))
        let text = record.expires >= farFuture ? "unlimited" : "\(day) \(clock)"
        return "\(record.includesSubdomains ? "." : "")\(host) \"\(text)\""
    }

    private func records(in bytes: [UInt8]) throws(HSTSStoreError) -> HSTSRecords {
        var records = HSTSRecords()
        guard !bytes.isEmpty else { return records }
        // A file is truncated if its last line is unterminated.
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
                    includesSubdomains: parts[3].contains("s"), expires: expires,
                    // Clamp the time, so that new records can still be newer.
                    noted: min(noted, Self.farFuture * 1_000),
                    isWithdrawn: parts[3].contains("w")),
                String(parts[0]))
        }
        return records
    }

    /// Merges records into the file, and returns all records of the file.
    ///
    /// The file is locked during the merge, so that no changes of other processes are lost. It is replaced atomically,
    /// so that other processes never read a partial file. Only its owner can read it.
    func merge(_ own: HSTSRecords, at now: Int64) throws(HSTSStoreError) -> HSTSRecords {
        let target: String, lock: Int32
        do throws(PrivateFile.Failure) {
            target = try PrivateFile.target(of: path)
            lock = try lockedFile(target)
        } catch {
            throw failure(error)
        }
        defer { close(lock) }
        let (found, format) = try read(lock)
        var all = found
        let before = all
        all.limit = own.limit
        all.merge(own, at: now)
        guard all.records != before.records else { return all }
        do throws(PrivateFile.Failure) {
            try PrivateFile.replace(target, with: Self.bytes(of: all, as: format))
        } catch {
            throw failure(error)
        }
        return all
    }

    /// Returns the contents of a file with the given records.
    static func bytes(of all: HSTSRecords, as format: Format) -> [UInt8] {
        var lines = [format == .own ? title : "# Your HSTS cache. https://curl.se/docs/hsts.html"]
        for (host, record) in all.records.sorted(by: { $0.key < $1.key }) {
            if format == .curl {
                if !record.isWithdrawn { lines.append(curlLine(host, record)) }
                continue
            }
            let marks = (record.includesSubdomains ? "s" : "") + (record.isWithdrawn ? "w" : "")
            lines.append("\(host) \(record.expires) \(record.noted) \(marks.isEmpty ? "-" : marks)")
        }
        return Array((lines.joined(separator: "\n") + "\n").utf8)
    }

    private func failure(_ error: PrivateFile.Failure) -> HSTSStoreError {
        switch error {
        case .system(let cause): .cannotWrite(path, reason: cause.text)
        case .unsafe(let flaw): .isUnsafe(path, reason: flaw.reason)
        }
    }

    /// Opens and locks the file, creating it if needed.
    private func lockedFile(_ target: String) throws(PrivateFile.Failure) -> Int32 {
        while true {
            let descriptor = try PrivateFile.openOrCreate(target)
            while flock(descriptor, LOCK_EX) != 0, errno == EINTR {}
            // Another process may have replaced the file while the current process waited for the lock.
            let own = FileIdentity(descriptor)
            if own != nil, own == FileIdentity(target) { return descriptor }
            close(descriptor)
        }
    }
}
