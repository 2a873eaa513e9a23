import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// A directory for one test, removed when this object is released.
final class Scratch: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("convoy-tests-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// The names of all files, except those that belong to a run of the program.
    var names: [String] {
        let all = (try? FileManager.default.contentsOfDirectory(atPath: url.path)) ?? []
        return all.filter { !$0.hasPrefix(".run-") }.sorted()
    }

    func data(_ name: String) throws -> Data { try Data(contentsOf: url.appendingPathComponent(name)) }

    func text(_ name: String) throws -> String { String(decoding: try data(name), as: UTF8.self) }

    func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: url.appendingPathComponent(name))
    }

    /// Returns the items of a list with these contents.
    func items(ofList data: Data) throws -> [DownloadItem] {
        let file = url.appendingPathComponent(".list")
        try data.write(to: file)
        let reader = try ListReader(file.path)
        var items: [DownloadItem] = []
        do throws(ToolError) {
            while case .entry(let entry) = try reader.next() { items.append(try DownloadList.item(entry, reader.name)) }
        } catch {
            throw ToolError(text: error.text.replacing(reader.name, with: "list"), status: error.status)
        }
        return items
    }

    func makeDirectory(_ name: String) throws {
        try FileManager.default.createDirectory(
            at: url.appendingPathComponent(name), withIntermediateDirectories: true)
    }

    /// Waits until a run of the program has created the file.
    func waitForFile(_ name: String) async throws {
        let path = url.appendingPathComponent(name).path
        try await waitUntil("the file \(name)") { FileManager.default.fileExists(atPath: path) }
    }

    /// Waits until a run of the program has written to the file. A partial file exists before its request is sent.
    func waitForBytes(of name: String) async throws {
        let path = url.appendingPathComponent(name).path
        try await waitUntil("bytes of the file \(name)") {
            let attributes = try? FileManager.default.attributesOfItem(atPath: path)
            return (attributes?[.size] as? Int ?? 0) > 0
        }
    }
}
