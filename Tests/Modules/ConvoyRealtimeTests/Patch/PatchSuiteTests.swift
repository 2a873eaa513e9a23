import ConvoyRealtime
import ConvoySerialization
import ConvoyTestSupport
import Foundation
import Testing

/// The examples in the RFCs, and the cases of the project json-patch-tests.
@Suite(.enabled(if: ConformanceSuite.directory("json-patch") != nil, .init(rawValue: ConformanceSuite.hint("json-patch"))))
struct PatchSuiteTests {
    @Test(arguments: [("tests.json", 95), ("spec_tests.json", 17)])
    func `the cases of json-patch-tests have the expected results`(file: String, count: Int) throws {
        let records = try records(file)
        #expect(records.count == count)
        for record in records {
            guard case .object(let record) = try? JSON(parsing: record, rejectsDuplicateKeys: true) else { continue }
            let text = JSON.object(record).description
            let document = try #require(record["doc"])
            let expectsError = record["error"] != nil
            var changed = document
            do {
                try JSONPatch(try #require(record["patch"])).apply(to: &changed)
                #expect(!expectsError, "\(text)")
                if let expected = record["expected"] {
                    #expect(changed == expected, "\(text)")
                    let created = JSONPatch(from: document, to: expected)
                    #expect(try document.applying(created) == expected, "\(text): \(created)")
                    #expect(created.description.utf8.count <= replacement(expected), "\(text): \(created)")
                }
            } catch let error as JSONPatchError {
                #expect(expectsError, "\(text): \(error)")
                #expect(changed.description == document.description, "\(text)")
            }
        }
    }

    /// Returns the length of the patch that replaces the whole document.
    private func replacement(_ value: JSON) -> Int {
        (([.replace(path: [], value: value)]) as JSONPatch).description.utf8.count
    }

    /// Returns the records of a file, except those in which an object has a repeated key, because the parser rejects
    /// them.
    private func records(_ file: String) throws -> [Data] {
        let text = try String(contentsOf: try directory().appendingPathComponent(file), encoding: .utf8)
        var records: [Data] = []
        var (depth, start, isQuoted, isEscaped) = (0, text.startIndex, false, false)
        for index in text.utf8.indices {
            let byte = text.utf8[index]
            if isQuoted {
                if byte == UInt8(ascii: "\""), !isEscaped { isQuoted = false }
                isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isQuoted = true
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                if depth == 2 { start = index }
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                depth -= 1
                if depth == 1 { records.append(Data(text.utf8[start...index])) }
            default: break
            }
        }
        return records
    }

    @Test func `the parser rejects an operation with a duplicate key`() throws {
        var twice = 0
        for file in ["tests.json", "spec_tests.json"] {
            for record in try records(file) {
                do throws(JSONSyntaxError) {
                    _ = try JSON(parsing: record, rejectsDuplicateKeys: true)
                } catch {
                    #expect(error.reason == "duplicate key")
                    twice += 1
                }
            }
        }
        #expect(twice == 2)
    }

    @Test func `the pointers in RFC 6901 resolve, as strings and as URI fragments`() throws {
        let file = try json(
            String(contentsOf: try directory().appendingPathComponent("pointer-rfc6901.json"), encoding: .utf8))
        let document = try #require(file[["document"]])
        guard case .array(let pointers) = file[["pointers"]],
            case .array(let fragments) = file[["fragments"]]
        else { throw CocoaError(.fileReadCorruptFile) }
        #expect(pointers.count == 12 && fragments.count == 12)
        for (one, isFragment) in pointers.map({ ($0, false) }) + fragments.map({ ($0, true) }) {
            guard case .string(let text) = one[[isFragment ? "fragment" : "pointer"]] else {
                throw CocoaError(.fileReadCorruptFile)
            }
            let pointer = try #require(isFragment ? JSONPointer(uriFragment: text) : JSONPointer(text), "\(text)")
            #expect(document[pointer] == one[["value"]], "\(text)")
            #expect((isFragment ? pointer.uriFragment : pointer.description) == text)
        }
    }

    @Test func `the merge patches in RFC 7396 have the expected results`() throws {
        let file = try json(
            String(contentsOf: try directory().appendingPathComponent("merge-patch-rfc7396.json"), encoding: .utf8))
        guard case .array(let cases) = file[["cases"]] else { throw CocoaError(.fileReadCorruptFile) }
        #expect(cases.count == 15)
        for one in cases {
            let target = try #require(one[["target"]])
            let result = try #require(one[["result"]])
            let patch = JSONMergePatch(try #require(one[["patch"]]))
            #expect(target.applying(patch) == result, "\(one)")
            if let created = JSONMergePatch(from: target, to: result) {
                #expect(target.applying(created) == result, "\(one): \(created)")
            } else {
                #expect(result.description.contains("null"), "\(one)")
            }
        }
    }

    private func directory() throws -> URL { try #require(ConformanceSuite.directory("json-patch")) }
}
