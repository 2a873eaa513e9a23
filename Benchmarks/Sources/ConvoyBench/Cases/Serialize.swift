import Convoy
import Foundation
import FoundationNetworking

extension Case {
    /// Serializers without a network, compared with the bare encoder or parser.
    static let serialize: Case = {
        let requests = [
            Trial("form", encoder: { try FormRequest().encode($0) }, convoy: { try FormRequest().throughConvoy($0) }),
            Trial(
                "json", encoder: { try JSONRequest().encode($0) }, convoy: { try JSONRequest().throughConvoy($0) },
                others: [
                    Subject("json-serialization") { try JSONRequest().throughJSONSerialization($0) },
                    Subject("convoy-encodable") { try JSONRequest().throughConvoyAsEncodable($0) },
                ]),
            Trial(
                "multipart", encoder: { try MultipartRequest().encode($0) },
                convoy: { try MultipartRequest().throughConvoy($0) }),
        ]
        let responses = ParsedResponse.allCases.map { kind in
            Trial(kind.rawValue, parser: { try kind.parse($0) }, convoy: { try kind.throughConvoy($0) })
        }
        return Case(
            name: "serialize",
            summary: "requests of 17 fields, of 1 KB of JSON, of 20 KB in parts; responses of 1 KB",
            trials: requests + responses,
            bars: requests.map { bar($0, over: Trial.encoder, atMost: $0.name.hasSuffix("multipart") ? 20 : 10) }
                + responses.map { bar($0, over: Trial.parser, atMost: 5) })
    }()

    /// Returns the target for the time that Convoy adds to the work itself.
    private static func bar(_ trial: Trial, over other: String, atMost microseconds: Double) -> Bar {
        .atMost(microseconds, "\(trial.unit) beyond the \(other) alone (\(trial.name))") {
            $0.excess(trial.name, over: other)
        }
    }
}

extension Trial {
    fileprivate static let encoder = "encoder"
    fileprivate static let parser = "parser"

    fileprivate init(
        _ kind: String, encoder: @escaping @Sendable (Context) throws -> Sample,
        convoy: @escaping @Sendable (Context) throws -> Sample, others: [Subject] = []
    ) {
        self.init(
            name: "serialize-\(kind)", unit: "us/request", limit: Self.encoder,
            subjects: [Subject(Self.encoder, run: encoder), Subject(Self.convoy, run: convoy)] + others)
    }

    fileprivate init(
        _ kind: String, parser: @escaping @Sendable (Context) throws -> Sample,
        convoy: @escaping @Sendable (Context) throws -> Sample
    ) {
        self.init(
            name: "parse-\(kind)", unit: "us/response", limit: Self.parser,
            subjects: [Subject(Self.parser, run: parser), Subject(Self.convoy, run: convoy)])
    }
}

/// Repeats some work, which must produce the same number of bytes or elements each time. The sample is CPU time,
/// because one thread does all the work without waiting.
private func measure(_ context: Context, count full: Int, _ once: () throws -> Int) throws -> Sample {
    let count = context.count(full)
    let expected = try once()
    guard expected > 0 else { throw BenchError("no output was produced") }
    // Warm up, so that objects with one-time cost, such as tables and the default headers, exist.
    for _ in 0..<max(1, count / 10) { _ = try once() }
    var total = 0
    let cost = try Cost { for _ in 0..<count { total += try once() } }
    guard total == expected * count else { throw BenchError("unexpected output size: \(total)") }
    let microseconds = cost.cpuSeconds * 1e6 / Double(count)
    return Sample(microseconds, cpuMicroseconds: microseconds)
}

private func url() throws -> URL {
    guard let url = URL(string: "http://127.0.0.1/path") else { throw BenchError("bad URL") }
    return url
}

// MARK: Requests

/// A POST of 17 fields, some of them nested.
private struct FormRequest {
    let parameters: ParameterValue = {
        var fields: [String: ParameterValue] = ["tags": ["one", "two", "three"], "ok": true]
        for number in 0..<10 { fields["field\(number)"] = .string("value number \(number) & more") }
        for number in 0..<5 { fields["count\(number)"] = .integer(Int64(number) * 1_000_003) }
        return .dictionary(fields)
    }()

    func encode(_ context: Context) throws -> Sample {
        try measure(context, count: 50_000) { try QueryStringStyle.brackets.queryString(from: parameters).utf8.count }
    }

    func throughConvoy(_ context: Context) throws -> Sample {
        let serializer = HTTPRequestSerializer()
        let url = try url()
        return try measure(context, count: 50_000) {
            try serializer.request(method: .post, url: url, parameters: parameters).httpBody?.count ?? 0
        }
    }
}

/// A POST of the document of `json-get`.
private struct JSONRequest {
    let document: JSONDocument

    init() throws { document = try JSONDecoder().decode(JSONDocument.self, from: Data(JSONDocument.text.utf8)) }

    /// Measures `JSONEncoder` alone.
    func encode(_ context: Context) throws -> Sample {
        try measure(context, count: 20_000) { try JSONEncoder().encode(document).count }
    }

    /// Measures `JSONSerialization` alone, with an existing tree.
    func throughJSONSerialization(_ context: Context) throws -> Sample {
        let tree = try JSONSerialization.jsonObject(with: Data(JSONDocument.text.utf8))
        return try measure(context, count: 5_000) {
            try JSONSerialization.data(withJSONObject: tree, options: .sortedKeys).count
        }
    }

    /// Measures the serializer with an existing tree.
    func throughConvoy(_ context: Context) throws -> Sample {
        let serializer = JSONRequestSerializer()
        let (url, parameters) = (try url(), try ParameterValue(encoding: document))
        return try measure(context, count: 20_000) {
            try serializer.request(method: .post, url: url, parameters: parameters).httpBody?.count ?? 0
        }
    }

    /// Measures the serializer with the same value as `JSONEncoder`.
    func throughConvoyAsEncodable(_ context: Context) throws -> Sample {
        let serializer = JSONRequestSerializer()
        let url = try url()
        return try measure(context, count: 20_000) {
            let parameters = try ParameterValue(encoding: document)
            return try serializer.request(method: .post, url: url, parameters: parameters).httpBody?.count ?? 0
        }
    }
}

/// A POST of four fields and a 20 KB file from memory, read completely, as the network would.
private struct MultipartRequest {
    let file = Data(repeating: 0x73, count: 20_000)
    let fields = ["one": "first", "two": "second", "three": "third", "four": "fourth"]

    /// Measures the manual assembly of the same bytes.
    func encode(_ context: Context) throws -> Sample {
        let names = fields.keys.sorted()
        return try measure(context, count: 50_000) {
            let boundary = "Boundary+0123456789ABCDEF"
            var body = Data(capacity: 22_000)
            for name in names {
                let head = "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n"
                body.append(contentsOf: head.utf8)
                body.append(contentsOf: (fields[name] ?? "").utf8)
                body.append(contentsOf: "\r\n".utf8)
            }
            let disposition = "Content-Disposition: form-data; name=\"file\"; filename=\"file.bin\""
            body.append(contentsOf: "--\(boundary)\r\n\(disposition)\r\nContent-Type: text/plain\r\n\r\n".utf8)
            body.append(file)
            body.append(contentsOf: "\r\n--\(boundary)--\r\n".utf8)
            return body.count
        }
    }

    func throughConvoy(_ context: Context) throws -> Sample {
        let serializer = HTTPRequestSerializer()
        let (url, parameters) = (try url(), ParameterValue.dictionary(fields.mapValues { .string($0) }))
        let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: 128 << 10)
        defer { buffer.deallocate() }
        return try measure(context, count: 50_000) {
            let request = try serializer.multipartFormRequest(url: url, parameters: parameters) { form in
                form.appendPart(fileData: file, name: "file", fileName: "file.bin", mimeType: "text/plain")
            }
            guard let stream = request.httpBodyStream else { return 0 }
            stream.open()
            defer { stream.close() }
            var total = 0
            while true {
                let count = stream.read(buffer, maxLength: 128 << 10)
                guard count > 0 else { return total }
                total += count
            }
        }
    }
}

// MARK: Responses

/// The document of `json-get` as a response of one type.
private enum ParsedResponse: String, CaseIterable, Sendable {
    case json
    case decodable
    case string
    case raw

    private static let data = Data(JSONDocument.text.utf8)

    /// Measures the parser alone.
    func parse(_ context: Context) throws -> Sample {
        let data = Self.data
        switch self {
        case .json:
            return try measure(context, count: 10_000) {
                (try JSONSerialization.jsonObject(with: data) as? [String: Any])?.count ?? 0
            }
        case .decodable:
            return try measure(context, count: 20_000) {
                try JSONDecoder().decode(JSONDocument.self, from: data).users.count
            }
        case .string:
            return try measure(context, count: 500_000) { String(data: data, encoding: .utf8)?.utf8.count ?? 0 }
        case .raw:
            return try measure(context, count: 500_000) { Optional<Any>(data).map { ($0 as? Data)?.count ?? 0 } ?? 0 }
        }
    }

    func throughConvoy(_ context: Context) throws -> Sample {
        let data = Self.data
        guard
            let response = HTTPURLResponse(
                url: try url(), statusCode: 200, httpVersion: "HTTP/1.1",
                headerFields: ["Content-Type": "application/json; charset=utf-8", "Content-Length": "\(data.count)"])
        else { throw BenchError("no response") }
        switch self {
        case .json:
            let serializer = JSONResponseSerializer()
            return try measure(context, count: 10_000) {
                (try serializer.responseObject(for: response, data: data) as? [String: Any])?.count ?? 0
            }
        case .decodable:
            let serializer = DecodableResponseSerializer<JSONDocument>()
            return try measure(context, count: 20_000) {
                try serializer.value(for: response, data: data)?.users.count ?? 0
            }
        case .string:
            let serializer = StringResponseSerializer()
            return try measure(context, count: 200_000) {
                (try serializer.responseObject(for: response, data: data) as? String)?.utf8.count ?? 0
            }
        case .raw:
            let serializer = HTTPResponseSerializer()
            return try measure(context, count: 200_000) {
                (try serializer.responseObject(for: response, data: data) as? Data)?.count ?? 0
            }
        }
    }
}
