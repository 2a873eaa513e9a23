import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import Foundation

/// Uploading files in one request, or in parts that can be resumed.
extension ObjectStorage {
    /// Stores a file under a key, replacing an existing object: in one request, or in parts if its size is at least
    /// ``Configuration/multipartThreshold``.
    ///
    /// If the file changes in the meantime, this fails and nothing is stored. A multipart upload that fails or is
    /// cancelled is aborted, so that the storage does not keep its parts. For an upload that can be resumed, see
    /// ``beginUpload(of:key:contentType:metadata:)``.
    ///
    /// - Parameters:
    ///   - url: The URL of the file.
    ///   - key: The key; see ``put(_:key:contentType:metadata:condition:)``.
    ///   - contentType: The media type; by default that of the file's extension.
    ///   - metadata: The metadata; see ``put(_:key:contentType:metadata:condition:)``.
    ///   - condition: The condition; nil, the default, to store unconditionally. In a multipart upload, the server checks it
    ///     on completion.
    @discardableResult
    public func put(
        fileAt url: URL, key: String, contentType: String? = nil, metadata: [String: String] = [:],
        condition: StoreCondition? = nil
    ) async throws -> StoredObject {
        let file = try await BlockingWork.run { try SourceFile(url) }
        let type = contentType ?? MIMEType.type(forPathExtension: url.pathExtension)
        guard file.size < min(max(configuration.multipartThreshold, 1), Self.largestRequest + 1) else {
            return try await putInParts(url, key, type, metadata, condition)
        }
        return try await stored(try putCall(.file(file, 0..<file.size), key, type, metadata, condition))
    }

    /// Called after each part with the current state of the upload, never concurrently. Store the state to resume after
    /// a crash. If the closure throws, the upload fails, but can be resumed.
    public typealias UploadCheckpoint = @Sendable (_ upload: MultipartUpload) async throws -> Void

    /// Begins a multipart upload of a file. No parts are sent until ``resume(_:condition:checkpoint:)``.
    ///
    /// ```swift
    /// let upload = try await storage.beginUpload(of: file, key: "film.mkv")
    /// try JSONEncoder().encode(upload).write(to: note)
    /// try await storage.resume(upload) { try JSONEncoder().encode($0).write(to: note) }
    /// ```
    ///
    /// - Parameters:
    ///   - url: The URL of the file.
    ///   - key: The key; see ``put(_:key:contentType:metadata:condition:)``.
    ///   - contentType: The media type; by default that of the file's extension.
    ///   - metadata: The metadata; see ``put(_:key:contentType:metadata:condition:)``.
    public func beginUpload(
        of url: URL, key: String, contentType: String? = nil, metadata: [String: String] = [:]
    ) async throws -> MultipartUpload {
        let file = try await BlockingWork.run { try SourceFile(url) }
        let partSize = try MultipartUpload.partSize(for: file.size, wanted: configuration.partSize)
        var call = try call("POST", key, answer: .document(with: "UploadId"))
        call.query = "uploads="
        call.fields = try Self.fields(contentType ?? MIMEType.type(forPathExtension: url.pathExtension), metadata, key)
        let hasChecksums = configuration.checksum == .sha256
        if hasChecksums { call.fields.append(("x-amz-checksum-algorithm", "SHA256")) }
        guard let document = try await run(call) as? StorageXML, let id = document["UploadId"], !id.isEmpty else {
            throw unexpected(key)
        }
        return MultipartUpload(key: key, uploadID: id, source: file, partSize: partSize, hasChecksums: hasChecksums)
    }

    /// Sends the missing parts, several of them concurrently, and completes the upload.
    ///
    /// The server lists the parts that it has stored. A part that the value does not contain, because the process ended
    /// before it could be stored, is used if its entity tag or checksum matches the bytes of the file. If this fails or
    /// is cancelled, the server keeps the parts.
    ///
    /// - Parameters:
    ///   - upload: The upload.
    ///   - condition: The condition, which the server checks on completion; nil, the default, to store unconditionally.
    ///   - checkpoint: A closure called after each part.
    /// - Throws: ``ObjectStorageError/Code/sourceChanged``, before a byte is sent, if the file has changed since the
    ///   upload began; ``ObjectStorageError/Code/noSuchUpload`` if the upload was completed or aborted.
    @discardableResult
    public func resume(
        _ upload: MultipartUpload, condition: StoreCondition? = nil, checkpoint: UploadCheckpoint? = nil
    ) async throws -> StoredObject {
        var upload = try await withCurrentSource(upload)
        let found = try await listedParts(of: upload)
        upload.parts = try await BlockingWork.run { [upload] in try Self.confirmed(found, of: upload) }
        return try await send(upload, condition, checkpoint)
    }

    /// Aborts an upload, and deletes its parts on the server. Succeeds even if the upload no longer exists.
    public func abort(_ upload: MultipartUpload) async throws { try await abort(upload, within: nil) }

    private func abort(_ upload: MultipartUpload, within limit: TimeInterval?) async throws {
        var call = try call("DELETE", upload.key)
        call.query = Self.query(upload)
        call.timeLimit = limit
        do {
            _ = try await run(call)
        } catch let error as ObjectStorageError where error.code == .noSuchUpload {
            return
        }
    }

    /// Begins, sends and completes an upload, and aborts it if that fails.
    private func putInParts(
        _ url: URL, _ key: String, _ type: String, _ metadata: [String: String], _ condition: StoreCondition?
    ) async throws -> StoredObject {
        let upload = try await beginUpload(of: url, key: key, contentType: type, metadata: metadata)
        do {
            return try await send(upload, condition, nil)
        } catch {
            // Use a separate task, because this one may be cancelled, and a time limit, so that an unreachable server
            // does not delay the error.
            await Task.detached { [self] in try? await abort(upload, within: 15) }.value
            throw error
        }
    }

    // MARK: Parts

    private func send(
        _ upload: MultipartUpload, _ condition: StoreCondition?, _ checkpoint: UploadCheckpoint?
    ) async throws -> StoredObject {
        var upload = upload
        var missing = upload.missing.makeIterator()
        try await withThrowingTaskGroup(of: MultipartUpload.Part.self) { group in
            for _ in 0..<max(1, configuration.concurrentParts) {
                guard let number = missing.next() else { break }
                group.addTask { [upload] in try await self.sendPart(number, of: upload) }
            }
            while let part = try await group.next() {
                upload.add(part)
                try await checkpoint?(upload)
                if let number = missing.next() {
                    group.addTask { [upload] in try await self.sendPart(number, of: upload) }
                }
            }
        }
        // A file that changed between two parts must not become an object.
        try await checkSource(of: upload)
        return try await complete(upload, condition)
    }

    private func checkSource(of upload: MultipartUpload) async throws {
        try await onSource(of: upload) { try upload.source.check() }
    }

    /// Returns the upload with the current identity of its file, which may have been moved or replaced by a copy. If the
    /// identity has changed, the bytes of the parts that were sent are compared with those of the file.
    private func withCurrentSource(_ upload: MultipartUpload) async throws -> MultipartUpload {
        try await onSource(of: upload) {
            let (file, mustCompareBytes) = try upload.source.renewed()
            var renewed = upload
            renewed.source = file
            for part in upload.parts where mustCompareBytes {
                let payload = RequestPayload(.file(file, renewed.range(of: part.number)))
                guard try payload.digests().sha256 == part.sha256 else { throw file.changed }
            }
            return renewed
        }
    }

    private func onSource<Value: Sendable>(
        of upload: MultipartUpload, _ work: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        do {
            return try await BlockingWork.run(work)
        } catch let error as ObjectStorageError {
            throw error.about(bucket: configuration.bucket, key: upload.key)
        }
    }

    private func sendPart(_ number: Int, of upload: MultipartUpload) async throws -> MultipartUpload.Part {
        var call = try call("PUT", upload.key, answer: .stored)
        call.query = "partNumber=\(number)&\(Self.query(upload))"
        call.payload = RequestPayload(.file(upload.source, upload.range(of: number)))
        // Use the checksum with which the upload was begun, whatever the current setting.
        call.checksum = upload.hasChecksums ? .sha256 : configuration.checksum == .md5 ? .md5 : .none
        let object = try await stored(call)
        guard let tag = object.entityTag else { throw unexpected(upload.key) }
        let digests = try call.payload.digests()
        return MultipartUpload.Part(number: number, entityTag: tag, sha256: digests.sha256, md5: digests.md5)
    }

    private static func query(_ upload: MultipartUpload) -> String { "uploadId=\(SignatureV4.encoded(upload.uploadID))" }

    // MARK: Listing parts

    /// A part listed by the server.
    struct ListedPart: Sendable {
        let number: Int
        let size: Int64
        let entityTag: String
        let checksum: String?
    }

    private func listedParts(of upload: MultipartUpload) async throws -> [ListedPart] {
        var parts: [ListedPart] = []
        var marker = 0
        while true {
            var call = try call("GET", upload.key, answer: .document(with: "UploadId"))
            call.query = "max-parts=1000&part-number-marker=\(marker)&\(Self.query(upload))"
            guard let document = try await run(call) as? StorageXML else { throw unexpected(upload.key) }
            for entry in document.all("Part") {
                guard let number = entry["PartNumber"].flatMap({ Int($0) }), let tag = entry["ETag"],
                    let size = entry["Size"].flatMap({ Int64($0) })
                else { throw unexpected(upload.key) }
                parts.append(ListedPart(number: number, size: size, entityTag: tag, checksum: entry["ChecksumSHA256"]))
            }
            guard document["IsTruncated"] == "true" else { return parts }
            // Without this check, the list could be endless.
            guard let next = document["NextPartNumberMarker"].flatMap({ Int($0) }), next > marker,
                parts.count <= MultipartUpload.maximumCount
            else { throw unexpected(upload.key) }
            marker = next
        }
    }

    /// Returns the listed parts that match the file. Reads the bytes of those that the value does not contain.
    private static func confirmed(_ listed: [ListedPart], of upload: MultipartUpload) throws -> [MultipartUpload.Part] {
        var result = upload
        result.parts = []
        for part in listed where 1...upload.partCount ~= part.number {
            let range = upload.range(of: part.number)
            guard part.size == range.upperBound - range.lowerBound else { continue }
            let tag = StoredObject.plain(part.entityTag)
            if let known = upload.parts.first(where: { $0.number == part.number }),
                StoredObject.plain(known.entityTag) == tag
            {
                result.add(known)
                continue
            }
            let digests = try RequestPayload(.file(upload.source, range)).digests()
            let isSame =
                if let checksum = part.checksum { checksum == digests.sha256.base64EncodedString() } else {
                    digests.md5.map { $0.hexadecimalString == tag.lowercased() } ?? false
                }
            // The completion request contains the checksum of each part, if the parts have checksums.
            guard isSame, part.checksum != nil || !upload.hasChecksums else { continue }
            result.add(
                MultipartUpload.Part(
                    number: part.number, entityTag: part.entityTag, sha256: digests.sha256, md5: digests.md5))
        }
        return result.parts
    }

    // MARK: Completion

    private func complete(_ upload: MultipartUpload, _ condition: StoreCondition?) async throws -> StoredObject {
        var call = try call("POST", upload.key, answer: .document(with: "ETag"))
        call.query = Self.query(upload)
        call.fields = [("Content-Type", "application/xml")]
        if let condition { call.fields.append(try condition.field(upload.key)) }
        call.payload = RequestPayload(.data(Data(Self.document(of: upload).utf8)))
        let expected = Self.entityTag(of: upload)
        do {
            guard let document = try await run(call) as? StorageXML, let tag = document["ETag"] else {
                throw unexpected(upload.key)
            }
            if let expected, Self.isOfParts(StoredObject.plain(tag)), StoredObject.plain(tag) != expected {
                throw ObjectStorageError(.checksumMismatch, "The entity tag does not match the parts sent.")
                    .about(bucket: configuration.bucket, key: upload.key)
            }
            var object = StoredObject(key: upload.key)
            object.entityTag = tag
            object.size = upload.source.size
            return object
        } catch let error as ObjectStorageError where error.code == .noSuchUpload {
            // The response to an earlier attempt may have been lost.
            guard let expected, let object = try? await head(upload.key), object.plainEntityTag == expected else {
                throw error
            }
            return object
        }
    }

    private static func document(of upload: MultipartUpload) -> String {
        var text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        for part in upload.parts {
            let checksum =
                upload.hasChecksums ? "<ChecksumSHA256>\(part.sha256.base64EncodedString())</ChecksumSHA256>" : ""
            text += "<Part>\(checksum)<ETag>\(escaped(part.entityTag))</ETag><PartNumber>\(part.number)</PartNumber></Part>"
        }
        return text + "</CompleteMultipartUpload>"
    }

    private static func escaped(_ text: String) -> String {
        text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
            .replacingOccurrences(of: ">", with: "&gt;").replacingOccurrences(of: "\"", with: "&quot;")
    }

    /// Returns the entity tag expected of the object: the MD5 digest of the parts' MD5 digests, and the number of
    /// parts; nil if the entity tag of a part is not its MD5 digest.
    private static func entityTag(of upload: MultipartUpload) -> String? {
        let digest = MessageDigest(.md5)
        for part in upload.parts {
            guard let md5 = part.md5, StoredObject.plain(part.entityTag).lowercased() == md5.hexadecimalString else {
                return nil
            }
            digest.update(md5)
        }
        return digest.value().map { "\($0.hexadecimalString)-\(upload.parts.count)" }
    }

    private static func isOfParts(_ tag: String) -> Bool {
        let words = tag.split(separator: "-")
        return words.count == 2 && StorageResponseSerializer.isDigest(String(words[0]))
    }
}
