#if DEBUG || FUZZ
import ConvoyDatabase
import ConvoySupport
import Foundation

@testable import ConvoySecurity
@testable import ConvoyTransport
@testable import ConvoyUploads
@testable import ConvoyWorkflow

extension FuzzSubject {
    /// The parsers of user files, and of the files that uploads read and store.
    static let files: [FuzzSubject] = [
        FuzzSubject(
            "hsts-file",
            seeds: [
                "Convoy-HSTS 1\nexample.com 2000000000 1700000000000 s\nexample.org 5 6 w\nb.example 9223372036854775807 9223372036854775807 -\n",
                "# Your HSTS cache. https://curl.se/docs/hsts.html\n.example.com \"20301231 23:59:59\"\nexample.org \"unlimited\"\n",
            ]
        ) { bytes in
            let file = HSTSFile(path: "/nowhere")
            let (found, format) = try file.read(bytes)
            let again = try file.read(HSTSFile.bytes(of: found, as: format))
            try expect(again.format == format || found.records.isEmpty, "a file is not read as it is written")
            try expect(again.records.records.count == found.records.count, "a host is not read as it is written")
            // Simulate the response of a known host, and merge a file that has changed in the meantime.
            var merged = found
            merged.limit = 4
            for host in found.records.keys.prefix(3) {
                guard let policy = StrictTransportSecurity("max-age=31536000") else { continue }
                _ = merged.note(policy, of: host, at: 1_700_000_000_000)
                merged.withdraw(host, at: 1_700_000_000_001)
            }
            merged.merge(found, at: 1_700_000_000)
            try expect(merged.records.count <= max(4, found.records.count), "more hosts than there may be")
        },
        FuzzSubject("upload-journal", seeds: [uploadRecord]) { bytes in
            // The digest is correct, as in a file that was forged on purpose.
            let json = Data(bytes)
            guard let digest = UploadJournal.digest(of: json),
                let entry = UploadJournal.entry(UploadJournal.text(7, json, digest)[...])
            else { return }
            try expect(entry.number == 7, "another number")
            var state = UploadState()
            state.parts = entry.record.parts.map { part in
                UploadPart(
                    url: URL(fileURLWithPath: "/"), range: part.first..<(part.end ?? .max), offset: part.offset,
                    bound: part.bound)
            }
            try expect(state.confirmed >= state.confirmedPrefix, "more at the beginning than in all")
            try expect(state.confirmedPrefix >= 0, "a negative length")
            for part in entry.record.parts {
                _ = UploadURLSecrets.filled(
                    part.url, isHidden: part.isHidden ?? false, from: URL(string: "https://example.com/?token=x"))
            }
            guard let resume = UploadResumeData(URL(fileURLWithPath: "/a"), entry.record) else { return }
            try expect(
                try UploadResumeData(resume.data).record == entry.record, "resume data are not read as they are written")
            try expect(resume.confirmedByteCount >= 0, "a negative length")
        },
        FuzzSubject("upload-journal-file", bytes: [uploadJournal]) { bytes in
            guard let entry = UploadJournal.entry(bytes[...]) else { return }
            try expect(entry.record.isSound, "numbers that do not fit together")
        },
        FuzzSubject(
            "upload-answer",
            seeds: [
                "Tus-Resumable: 1.0.0\nTus-Version: 1.0.0,0.2.2\nTus-Extension: creation, checksum\nTus-Max-Size: 1000\nUpload-Offset: 5",
                "Upload-Draft-Interop-Version: 6\nUpload-Complete: ?1\nUpload-Limit: max-size=5, max-append-size=0\nLocation: ../a?b",
            ]
        ) { bytes in
            guard let url = URL(string: "https://example.com/files/") else { return }
            let head = ResponseHead(url: url, statusCode: 201, headers: fields(bytes).map { ($0.name, $0.value) })
            let abilities = ServerAbilities(head)
            try expect((abilities.maximumAppend ?? 1) > 0 && (abilities.maximumSize ?? 0) >= 0, "a limit below zero")
            let answer = UploadAnswer(head: head, data: nil, redirects: [], sent: 0)
            _ = answer.isOfDraft
            for dialect in [ResumableDialect.tus, .draft(3), .draft(6)] { _ = dialect.isComplete(answer) }
            if let location = try answer.location() {
                try expect(["http", "https"].contains(location.scheme?.lowercased()), "a place that is none of HTTP")
            }
            try expect(try answer.number("Upload-Offset") ?? 0 >= 0, "a negative offset")
        },
        FuzzSubject("workflow-journal", bytes: [workflowJournal]) { bytes in
            try ShortFile.with(bytes) { path in
                let database = try Database(path: path, schema: Journal.schema, keepsLog: false)
                _ = Journal.entry(for: Journal.Key(id: "a", item: ""), "digest", in: database)
            }
        },
    ]

    private static let uploadRecord =
        #"{"digested":0,"parts":[{"bound":4,"end":8,"first":0,"offset":2,"url":"https://example.com/u/1?token=***","isHidden":true}],"#
        + #""place":"p","seen":1,"shown":"https://example.com/","source":{"changed":1,"device":1,"inode":2,"modified":1,"size":8},"#
        + #""uploadProtocol":{"tus":{}}}"#

    private static let uploadJournal: [UInt8] = {
        let json = Data(uploadRecord.utf8)
        return UploadJournal.text(3, json, UploadJournal.digest(of: json) ?? "")
    }()

    /// A journal with one request, as written by SQLite.
    private static let workflowJournal: [UInt8] = {
        let written = try? ShortFile.with([]) { path in
            try {
                let database = try Database(path: path, schema: Journal.schema, keepsLog: false)
                try database.run(
                    "INSERT INTO done VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    [
                        .text("a"), .text(""), .text("digest"), .text("{\"x\":1}"), .integer(200), .text("/a"), .integer(1),
                        .integer(2),
                    ])
            }()
            return FileManager.default.contents(atPath: path)
        }
        return (written ?? nil).map(Array.init) ?? []
    }()
}

/// A temporary file with given bytes, for parsers that read a path.
enum ShortFile {
    static func with<Value>(_ bytes: [UInt8], _ body: (String) throws -> Value) throws -> Value {
        let path = NSTemporaryDirectory() + "fuzz-" + UUID().uuidString
        // Remove the files that SQLite creates beside it as well.
        defer { for suffix in ["", "-wal", "-shm", "-journal", ".lock"] { unlink(path + suffix) } }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw POSIXError(.EIO) }
        let count = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        close(descriptor)
        guard count == bytes.count else { throw POSIXError(.EIO) }
        return try body(path)
    }
}
#endif
