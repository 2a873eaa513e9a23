import ConvoyDownloads
import ConvoySecurity
import ConvoySupport
import Foundation

/// The journal of an upload: resuming an earlier upload, and recording this one.
extension Upload {
    /// Opens the journal, and adopts the upload in it or in the resume data. Blocks.
    func openJournal(of source: UploadSource, _ url: URL) throws(UploadError) {
        let opened = state.withLock { $0.source }
        var record = UploadRecord(
            place: ResourcePlace(url).digest, shown: Redaction.url(url.absoluteString, secrets),
            source: opened?.identity, seen: SourceIdentity.now)
        if let total = opened?.length { state.withLock { $0.total = total } }
        var mark: Int64?
        if settings.keepsJournal, let journal = try usableJournal(of: source, url) {
            state.withLock { $0.journal = journal }
            if let found = journal.read(), found.place == record.place {
                if settings.resumption == .restart {
                    state.withLock { $0.discarded = found.stored }
                } else {
                    mark = try adopt(found, opened, &record)
                }
            }
        }
        if record.parts.isEmpty, state.withLock({ $0.parts.isEmpty }), let resumed = settings.resumed {
            guard resumed.place == record.place else {
                throw UploadError(.unusableJournal("The resume data belongs to another URL."))
            }
            mark = try adopt(resumed, opened, &record)
        }
        if let given = settings.uploadURL, state.withLock({ $0.parts.isEmpty }) {
            state.withLock { $0.parts = [UploadPart(url: given, range: 0..<($0.total ?? .max), bound: .max)] }
        }
        let algorithms = settings.computed.union(settings.checksum.map { [$0.algorithm] } ?? [])
        state.withLock { state in
            state.record = record
            state.digest = SentDigest(opened, algorithms, mark: opened == nil ? mark : nil)
        }
    }

    /// Opens the journal: the one chosen by the caller, otherwise the one beside the file, or in the user's directory
    /// if no file can be created there. Returns nil if the upload has none. If none can be opened, only an upload that
    /// needs a journal fails; see ``requireJournal()``. Blocks.
    private func usableJournal(of source: UploadSource, _ url: URL) throws(UploadError) -> UploadJournal? {
        if let journal = settings.journal { return try UploadJournal(journal.path, calls: settings.calls) }
        guard let file = source.file else { return nil }
        var failure: UploadError?
        for path in UploadJournalPlace.paths(of: file, for: url, settings.journalDirectory) {
            do throws(UploadError) {
                return try UploadJournal(path, calls: settings.calls)
            } catch {
                guard case .unusableJournal = error.reason else { throw error }
                failure = failure ?? error
            }
        }
        state.withLock { [failure] in $0.journalFailure = failure }
        return nil
    }

    /// Throws an error if the upload can be resumed, but its journal cannot be written.
    func requireJournal() throws(UploadError) {
        if let failure = state.withLock({ $0.journalFailure }) { throw failure }
    }

    /// Restores a journaled upload. If its source has changed and the caller allows that, discards it. Blocks.
    private func adopt(
        _ found: UploadRecord, _ source: (any SeekableSource)?, _ record: inout UploadRecord
    ) throws(UploadError) -> Int64? {
        do throws(UploadError) {
            return try restore(found, source, &record)
        } catch {
            guard error.reason == .sourceChanged, settings.resumption.restartsWhenChanged else { throw error }
            state.withLock { $0.discarded = found.stored }
            return nil
        }
    }

    /// Restores a journaled upload if it has the same source. Returns the position up to which a sequence must have the
    /// same bytes. Blocks.
    private func restore(
        _ found: UploadRecord, _ source: (any SeekableSource)?, _ record: inout UploadRecord
    ) throws(UploadError) -> Int64? {
        if let old = found.source, let source {
            guard old.mayEqual(source.identity) else { throw UploadError(.sourceChanged) }
            // The file was moved, or modified so shortly before that its modification time may not show it. Compare the
            // bytes.
            if old.mustCompareBytes(with: source.identity, seen: found.seen) {
                let digest = try source.checksum(.sha256, of: 0..<min(found.digested, source.length))
                guard found.digested <= source.length, found.digested == 0 || digest.hexadecimal == found.digest else {
                    throw UploadError(.sourceChanged)
                }
            }
        } else if (found.source == nil) != (source == nil) {
            throw UploadError(.sourceChanged)
        }
        // The response to the request that combines the parts was lost, so the upload may be complete.
        if found.isCombining == true, !settings.resumption.restartsWhenGone { throw UploadError(.mayHaveArrived) }
        record.digest = found.digest
        record.digested = found.digested
        record.stored = found.stored
        record.expires = found.expires
        record.uploadProtocol = found.uploadProtocol
        var parts: [UploadPart] = []
        for part in found.parts {
            guard let url = UploadURLSecrets.filled(part.url, isHidden: part.isHidden ?? false, from: request.url) else {
                guard settings.resumption.restartsWhenGone else { throw UploadError(.missingSecrets) }
                return nil
            }
            parts.append(
                UploadPart(
                    url: url, range: part.first..<(part.end ?? .max), offset: part.offset, bound: part.bound,
                    recordedBound: part.bound))
        }
        state.withLock { ($0.parts, $0.uploadProtocol) = (parts, found.uploadProtocol) }
        return found.digested > 0 ? found.digested : nil
    }

    // MARK: Writing

    /// Writes the confirmed state to the journal.
    func record(synchronizes: Bool) async throws {
        let (journal, record) = (state.withLock { $0.journal }, currentRecord)
        guard let journal, !record.parts.isEmpty || record.stored != nil else { return }
        try await blocking { try journal.write(record, synchronizes: synchronizes) }
    }

    /// The confirmed state, without secrets.
    var currentRecord: UploadRecord {
        state.withLock { state in
            var record = state.record
            record.uploadProtocol = state.uploadProtocol
            record.parts = state.parts.map { part in
                let (text, isHidden) = UploadURLSecrets.hidden(part.url, secrets)
                return UploadRecord.Part(
                    url: text, isHidden: isHidden ? true : nil, first: part.range.lowerBound,
                    end: part.length == nil ? nil : part.range.upperBound, offset: part.offset,
                    bound: min(max(part.bound, part.recordedBound), part.length ?? .max))
            }
            if let digest = state.digest?.value, digest.position > record.digested, let value = digest.sha256 {
                record.digest = value
                record.digested = digest.position
                state.record = record
            }
            return record
        }
    }
}
