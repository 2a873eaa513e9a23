import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Compares the requests sent by an imported archive with the requests recorded in it.
///
/// The comparison excludes the connection's fields, `Accept-Encoding`, and fields that Convoy sends with any request
/// but the archive does not contain.
@Suite struct ImportedArchiveTests {
    private static let own: Set<String> = [
        "host", "content-length", "connection", "accept-encoding", "expect", "transfer-encoding",
    ]

    @Test(arguments: ImportedArchives.equal.indices)
    func `an imported archive sends the requests that it contains`(index: Int) async throws {
        let entries = ImportedArchives.equal[index]
        let server = try TestServer()
        let responses = Locked(entries.filter { !$0.isLeftOut })
        server.route("/*") { _ in
            let entry = responses.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            let fields = TestServer.Headers((entry?.responseFields ?? []).map { .init(name: $0.0, value: $0.1) })
            return TestServer.Response(status: entry?.status ?? 200, headers: fields)
        }
        let base = String(server.url.absoluteString.dropLast(server.url.absoluteString.hasSuffix("/") ? 1 : 0))
        let archive: JSON = ["log": ["entries": .array(entries.map { $0.json(base) })]]
        var drafts = try #require(ArchiveReader.drafts(Data(archive.description.utf8)))
        var secrets = SecretVariables()
        secrets.hide(in: &drafts)
        let text = RequestDraft.manifest(drafts)
        for value in secrets.values.values where value.count >= 6 { #expect(!text.contains(value), "\(text)") }
        let workflow = try Workflow(
            parsing: Data(text.utf8), name: "m.yaml", inputs: WorkflowInputs(environment: secrets.values))
        let result = await (try WorkflowRun(workflow)).run()
        #expect(result.outcomes.allSatisfy { $0.failures.isEmpty }, "\(result.outcomes.map(\.failures)), \(text)")
        let sent = server.requests, expected = entries.filter { !$0.isLeftOut }
        #expect(sent.map(\.method) == expected.map(\.method), "\(text)")
        for (entry, request) in zip(expected, sent) {
            let target = try #require(URLReference.url(base + entry.target)).absoluteString.dropFirst(base.count)
            #expect(request.target == target, "\(text)")
            try compareFields(entry, request, text)
            compareBody(entry, request, text)
        }
    }

    private func compareFields(_ entry: ImportedArchives.Entry, _ request: RecordedRequest, _ text: String) throws {
        var fields: [String: String] = [:]
        for (name, value) in entry.fields {
            let key = name.lowercased()
            guard !Self.own.contains(key), !key.hasPrefix(":") else { continue }
            fields[key] = fields[key].map { $0 + (key == "cookie" ? "; " : ", ") + value } ?? value
        }
        if fields["content-type"] == nil, let type = entry.body?[["mimeType"]] { fields["content-type"] = type.text }
        for (key, value) in fields {
            let found = request.headers.fields.filter { $0.name.lowercased() == key }.map(\.value).joined(separator: ", ")
            if value.hasPrefix("multipart"), entry.sent != nil { continue }
            #expect(found == value, "\(key): \(text)")
        }
        let extra = Set(request.headers.fields.map { $0.name.lowercased() }).subtracting(fields.keys).subtracting(Self.own)
        #expect(extra.subtracting(["user-agent", "accept", "accept-language"]).isEmpty, "\(extra): \(text)")
    }

    private func compareBody(_ entry: ImportedArchives.Entry, _ request: RecordedRequest, _ text: String) {
        let type = request.headers["Content-Type"] ?? ""
        var expected = entry.sent ?? entry.body?[["text"]]?.text ?? "", sent = request.text
        if type.hasPrefix("application/json"), let one = try? JSON(parsing: Data(expected.utf8), rejectsDuplicateKeys: true),
            let other = try? JSON(parsing: request.body, rejectsDuplicateKeys: true)
        {
            #expect(one == other, "\(text)")
            return
        }
        if type.hasPrefix("application/x-www-form-urlencoded") {
            sent = sent.replacing("+", with: " ").removingPercentEncoding ?? sent
            if entry.sent == nil { expected = expected.replacing("+", with: " ").removingPercentEncoding ?? expected }
        }
        if entry.sent != nil, let boundary = type.range(of: "boundary=") {
            sent = sent.replacing(String(type[boundary.upperBound...]), with: "B")
        }
        #expect(sent == expected, "\(text)")
    }

    @Test(arguments: ImportedArchives.announced.indices)
    func `an archive that a manifest cannot express has a note`(index: Int) throws {
        let archive: JSON = [
            "log": ["entries": .array(ImportedArchives.announced[index].map { $0.json("http://a.test") })]
        ]
        let drafts = try #require(ArchiveReader.drafts(Data(archive.description.utf8)))
        #expect(!drafts.flatMap(\.draft.notes).isEmpty)
        var secrets = SecretVariables(), hidden = drafts
        secrets.hide(in: &hidden)
        let text = RequestDraft.manifest(hidden)
        _ = try Workflow(parsing: Data(text.utf8), name: "m", inputs: WorkflowInputs(environment: secrets.values))
    }

    @Test func `the table has 50 archives`() {
        #expect(ImportedArchives.equal.count + ImportedArchives.announced.count >= 50)
    }
}
