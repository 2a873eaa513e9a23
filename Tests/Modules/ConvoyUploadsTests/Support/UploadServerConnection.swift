import ConvoySecurity
import ConvoySupport
import Foundation

/// A connection of an `UploadServer`, on its own thread.
final class UploadServerConnection: @unchecked Sendable {
    private let client: Int32
    private let server: UploadServer
    private var buffer: [UInt8] = []

    private struct Gone: Error {}

    init(_ client: Int32, server: UploadServer) { (self.client, self.server) = (client, server) }

    func run() {
        while let request = readHead() {
            do {
                guard try serve(request) else { break }
            } catch {
                break
            }
        }
        server.didEnd(client)
    }

    // MARK: Reading and writing

    private func more() -> Bool {
        var bytes = [UInt8](repeating: 0, count: 64 << 10)
        let count = recv(client, &bytes, bytes.count, 0)
        guard count > 0 else { return false }
        buffer += bytes[..<count]
        return true
    }

    private func readHead() -> UploadServer.Request? {
        while true {
            if let end = Self.endOfHead(buffer) {
                let lines = String(decoding: buffer[..<end], as: UTF8.self).components(separatedBy: "\r\n")
                buffer.removeFirst(end + 4)
                server.state.withLock { $0.heads += end + 4 }
                let words = lines[0].split(separator: " ")
                guard words.count == 3 else { return nil }
                var fields: [String: String] = [:]
                for line in lines.dropFirst() {
                    guard let colon = line.firstIndex(of: ":") else { continue }
                    fields[line[..<colon].lowercased()] = line[line.index(after: colon)...].trimmingCharacters(
                        in: .whitespaces)
                }
                return UploadServer.Request(method: String(words[0]), path: String(words[1]), fields: fields)
            }
            guard buffer.count < 64 << 10, more() else { return nil }
        }
    }

    private static func endOfHead(_ bytes: [UInt8]) -> Int? {
        guard bytes.count >= 4 else { return nil }
        for index in 0...(bytes.count - 4)
        where bytes[index] == 13 && bytes[index + 1] == 10 && bytes[index + 2] == 13 && bytes[index + 3] == 10 {
            return index
        }
        return nil
    }

    /// Receives the body piece by piece, up to a limit. Returns the number of bytes received.
    private func takeBody(_ request: UploadServer.Request, limit: Int = .max, _ use: (UnsafeRawBufferPointer) -> Void) throws
    {
        if request.fields["expect"] != nil { try write("HTTP/1.1 100 Continue\r\n\r\n") }
        guard request.fields["transfer-encoding"] == nil else { return try takeChunks(use) }
        var rest = min(request.number("content-length") ?? 0, limit)
        while rest > 0 {
            if buffer.isEmpty, !more() { throw Gone() }
            let count = min(rest, buffer.count)
            buffer.withUnsafeBytes { use(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            buffer.removeFirst(count)
            rest -= count
        }
    }

    private func takeChunks(_ use: (UnsafeRawBufferPointer) -> Void) throws {
        while true {
            while !buffer.contains(10) { if !more() { throw Gone() } }
            let end = buffer.firstIndex(of: 10) ?? 0
            let size =
                Int(String(decoding: buffer[..<end], as: UTF8.self).trimmingCharacters(in: .whitespaces), radix: 16) ?? 0
            buffer.removeFirst(end + 1)
            while buffer.count < size + 2 { if !more() { throw Gone() } }
            buffer.withUnsafeBytes { use(UnsafeRawBufferPointer(rebasing: $0[..<size])) }
            buffer.removeFirst(size + 2)
            if size == 0 { return }
        }
    }

    private func write(_ text: String) throws {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw Gone() }
            rest = rest.dropFirst(count)
        }
    }

    private func reset() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
    }

    // MARK: Serving

    /// Returns whether the connection continues.
    private func serve(_ request: UploadServer.Request) throws -> Bool {
        let fault = server.faultFor(request)
        switch fault {
        case .answer(let text):
            try write(text)
            return false
        case .stall:
            while more() { buffer.removeAll() }
            return false
        case .refuse(let status, let fields):
            try takeBody(request) { _ in }
            let head = fields.map { "\($0.0): \($0.1)\r\n" }.joined()
            try write("HTTP/1.1 \(status) Refused\r\n\(head)Content-Length: 0\r\n\r\n")
            return true
        case .forget: server.state.withLock { $0.uploads[request.path] = nil }
        case .reset(let count):
            try? receive(request, limit: count)
            reset()
            return false
        default: break
        }
        var (status, head, body, isDrained) = try answer(request)
        if case .change(let change) = fault { change(&head, &status) }
        if case .loseAnswer = fault {
            reset()
            return false
        }
        if !isDrained { head.append(("Connection", "close")) }
        let content = request.method == "HEAD" || status == 204 ? "" : body
        if status != 204 { head.append(("Content-Length", "\(content.utf8.count)")) }
        let text =
            "HTTP/1.1 \(status) Status\r\n" + head.map { "\($0.0): \($0.1)\r\n" }.joined() + "\r\n" + content
        if case .cutAnswer(let count) = fault {
            try write(String(decoding: Array(text.utf8).prefix(count), as: UTF8.self))
            reset()
            return false
        }
        note(request, head, status)
        try write(text)
        if case .keepOnly(let count) = fault {
            server.state.withLock { state in
                if let data = state.uploads[request.path]?.data, data.count > count {
                    state.uploads[request.path]?.data = Data(data.prefix(count))
                }
            }
        }
        return isDrained
    }

    /// Records the offset reported to the client.
    private func note(_ request: UploadServer.Request, _ head: [(String, String)], _ status: Int) {
        guard let offset = head.first(where: { $0.0 == "Upload-Offset" }).flatMap({ Int($0.1) }) else { return }
        noteClaim(request.path, offset)
    }

    private func noteClaim(_ path: String, _ count: Int) {
        server.state.withLock { state in
            guard let claimed = state.uploads[path]?.claimed else { return }
            state.uploads[path]?.claimed = max(claimed, count)
        }
    }

    private typealias Answer = (status: Int, head: [(String, String)], body: String, isDrained: Bool)

    /// Stores as much of a body as arrives, if it belongs to an upload.
    private func receive(_ request: UploadServer.Request, limit: Int) throws {
        let path: String
        switch request.method {
        case "PATCH":
            guard let stored = server.state.withLock({ $0.uploads[request.path] }),
                stored.data.count == request.number("upload-offset")
            else { return }
            path = request.path
        default:
            guard !request.isTus, request.fields["upload-draft-interop-version"] != nil else {
                return try takeBody(request, limit: limit) { _ in }
            }
            path = server.newUpload(UploadServer.Stored(length: request.number("upload-length")))
            if server.namesUploadsEarly { try interim(path, nil, request) }
        }
        try takeBody(request, limit: limit) { server.append($0, to: path) }
    }

    private func interim(_ path: String, _ offset: Int?, _ request: UploadServer.Request) throws {
        let version = request.fields["upload-draft-interop-version"] ?? "6"
        var text = "HTTP/1.1 104 Upload Resumption Supported\r\nUpload-Draft-Interop-Version: \(version)\r\n"
        text += "Location: \(server.place(path))\r\n"
        if let offset { text += "Upload-Offset: \(offset)\r\n" }
        try write(text + "\r\n")
    }

    private func answer(_ request: UploadServer.Request) throws -> Answer {
        let isTus = request.isTus
        let version = request.fields["upload-draft-interop-version"].flatMap { Int($0) }
        let mark = isTus ? [("Tus-Resumable", "1.0.0")] : [("Upload-Draft-Interop-Version", "\(version ?? 6)")]
        func completeness(_ isComplete: Bool) -> (String, String) {
            version == 3 ? ("Upload-Incomplete", isComplete ? "?0" : "?1") : ("Upload-Complete", isComplete ? "?1" : "?0")
        }
        switch request.method {
        case "OPTIONS":
            return (
                204,
                [
                    ("Tus-Resumable", "1.0.0"), ("Tus-Version", "1.0.0"), ("Tus-Extension", server.extensions),
                    ("Tus-Checksum-Algorithm", "md5,sha1,sha256"),
                ], "", true
            )
        case "HEAD":
            guard let stored = server.state.withLock({ $0.uploads[request.path] }) else { return (404, mark, "", true) }
            var head = mark + [("Upload-Offset", "\(stored.data.count)"), ("Cache-Control", "no-store")]
            if let length = stored.length {
                head.append(("Upload-Length", "\(length)"))
            } else if isTus {
                head.append(("Upload-Defer-Length", "1"))
            }
            if !isTus { head.append(completeness(stored.isComplete)) }
            return (isTus ? 200 : 204, head, "", true)
        case "POST" where isTus: return try createTus(request, mark)
        case "PATCH" where isTus: return try patchTus(request, mark)
        case "DELETE":
            let isThere = server.state.withLock { $0.uploads.removeValue(forKey: request.path) } != nil
            return (isThere ? 204 : 404, mark, "", true)
        case "PATCH":
            guard let stored = server.state.withLock({ $0.uploads[request.path] }) else { return (404, mark, "", false) }
            guard stored.data.count == request.number("upload-offset"), !stored.isComplete else {
                return (409, mark + [("Upload-Offset", "\(stored.data.count)")], "", false)
            }
            if (version ?? 0) >= 6, request.fields["content-type"] != "application/partial-upload" {
                return (415, mark, "", false)
            }
            return try takeDraft(request, request.path, mark, completeness, isNew: false)
        case "POST", "PUT":
            guard version != nil else {
                var data = Data()
                try takeBody(request) { data.append(contentsOf: $0) }
                let stored = UploadServer.Stored(data: data, length: data.count, isComplete: true)
                server.state.withLock { state in
                    state.received += data.count
                    state.uploads[request.path] = stored
                }
                return (201, [], "stored \(data.count)", true)
            }
            let path = server.newUpload(UploadServer.Stored(length: request.number("upload-length")))
            if server.namesUploadsEarly { try interim(path, nil, request) }
            return try takeDraft(request, path, mark, completeness, isNew: true)
        default: return (405, mark, "", false)
        }
    }

    private func takeDraft(
        _ request: UploadServer.Request, _ path: String, _ mark: [(String, String)],
        _ completeness: (Bool) -> (String, String), isNew: Bool
    ) throws -> Answer {
        let isLast = request.fields["upload-complete"] == "?1" || request.fields["upload-incomplete"] == "?0"
        var told = 0
        try takeBody(request) { bytes in
            server.append(bytes, to: path)
            let count = server.state.withLock { $0.uploads[path]?.data.count ?? 0 }
            guard server.namesUploadsEarly, count - told >= 16 << 10 else { return }
            told = count
            noteClaim(path, count)
            try? interim(path, count, request)
        }
        let count = server.state.withLock { state in
            if isLast { state.uploads[path]?.isComplete = true }
            return state.uploads[path]?.data.count ?? 0
        }
        var head = mark + [("Upload-Offset", "\(count)"), completeness(isLast)]
        noteClaim(path, count)
        if isNew, !isLast || server.namesUploadsEarly { head.append(("Location", server.place(path))) }
        return (isLast ? 200 : 201, head, isLast ? "stored \(count)" : "", true)
    }

    // MARK: tus

    private func createTus(_ request: UploadServer.Request, _ mark: [(String, String)]) throws -> Answer {
        let concat = request.fields["upload-concat"]
        if let concat, concat.hasPrefix("final;") {
            var whole = Data()
            for place in concat.dropFirst(6).split(separator: " ") {
                let path = URL(string: String(place))?.path ?? String(place)
                guard let part = server.state.withLock({ $0.uploads[path] }), part.isPartial, part.length == part.data.count
                else { return (400, mark, "a part is missing", true) }
                whole += part.data
            }
            let path = server.newUpload(UploadServer.Stored(data: whole, length: whole.count, isComplete: true))
            return (201, mark + [("Location", server.place(path))], "", true)
        }
        let length = request.number("upload-length")
        guard length != nil || request.fields["upload-defer-length"] == "1" else { return (400, mark, "", false) }
        let path = server.newUpload(UploadServer.Stored(length: length, isPartial: concat == "partial"))
        var head = mark + [("Location", server.place(path)), ("Upload-Expires", "Fri, 31 Dec 2049 23:59:59 GMT")]
        if request.fields["content-type"] == "application/offset+octet-stream" {
            try takeBody(request) { server.append($0, to: path) }
            head.append(("Upload-Offset", "\(server.state.withLock { $0.uploads[path]?.data.count ?? 0 })"))
        }
        return (201, head, "", true)
    }

    private func patchTus(_ request: UploadServer.Request, _ mark: [(String, String)]) throws -> Answer {
        guard let stored = server.state.withLock({ $0.uploads[request.path] }) else { return (404, mark, "", false) }
        guard stored.data.count == request.number("upload-offset") else { return (409, mark, "", false) }
        guard request.fields["content-type"] == "application/offset+octet-stream" else { return (415, mark, "", false) }
        if let length = request.number("upload-length") {
            server.state.withLock { $0.uploads[request.path]?.length = length }
        }
        if let checksum = request.fields["upload-checksum"] {
            // The body is stored only if it is correct and complete.
            var data = Data()
            try takeBody(request) { data.append(contentsOf: $0) }
            let words = checksum.split(separator: " ")
            let digest = MessageDigest(ChecksumAlgorithm(name: String(words[0])) ?? .sha1)
            digest.update(data)
            guard words.count == 2, digest.value()?.base64EncodedString() == String(words[1]) else {
                return (460, mark, "", true)
            }
            data.withUnsafeBytes { server.append($0, to: request.path) }
        } else {
            try takeBody(request) { server.append($0, to: request.path) }
        }
        let count = server.state.withLock { $0.uploads[request.path]?.data.count ?? 0 }
        return (204, mark + [("Upload-Offset", "\(count)"), ("Upload-Expires", "Fri, 31 Dec 2049 23:59:59 GMT")], "", true)
    }
}
