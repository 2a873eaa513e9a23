import ConvoyTestSupport
import ConvoyWorkflow
import Foundation
import Testing

@testable import ConvoyTool

@Suite struct HelpTests {
    /// The arguments that print each help page.
    private static let pages: [[String]] =
        [[]]
        + Command.allCases.flatMap { command in
            [[command.rawValue]] + Help.subjects(of: command).map { [command.rawValue, $0.left] }
        }

    @Test(arguments: pages)
    func `a page is ASCII and fits on a screen, with a row left for the prompt`(_ words: [String]) throws {
        let lines = try Help.page(words).split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count <= 23)
        for line in lines {
            #expect(line.count < 80 && line.last != " ", "\(line)")
            #expect(line.unicodeScalars.allSatisfy { (0x20..<0x7F).contains($0.value) }, "\(line)")
        }
        #expect(lines.contains { $0.hasPrefix("Usage: convoy") })
    }

    @Test(arguments: Command.allCases) func `the page of a command contains its usage and exit statuses`(
        _ command: Command
    ) throws {
        let page = try Help.page([command.rawValue])
        #expect(page.hasPrefix("Usage: convoy \(command.rawValue)"))
        #expect(page.contains("\nExit status: 0 "))
    }

    @Test(arguments: Command.transferring)
    func `the page of a command lists all of its help topics`(_ command: Command) throws {
        let page = try Help.page([command.rawValue])
        let subjects = Help.subjects(of: command)
        #expect(subjects.count == [.get: 8, .put: 7, .storage: 7, .run: 12, .send: 7, .events: 6, .work: 8][command])
        for subject in subjects { #expect(page.contains("  \(subject.left) ") && page.contains(subject.right)) }
        #expect(page.contains("convoy \(command.rawValue) --help TOPIC"))
        #expect(page.contains("~/.config/convoy/config.json"))
        for kind in FailureKind.allCases where kind.exitStatus > 2 {
            let words = page.replacing("\n", with: " ")
            #expect(words.contains(try "\(kind.exitStatus) \(#require(kind.term))"))
        }
    }

    @Test(arguments: Topic.allCases)
    func `a topic exists for exactly the commands that have options in it`(_ topic: Topic) throws {
        for command in Command.transferring {
            let options = OptionTable.options(of: command).filter { $0.topic == topic }
            let isThere = (try? Help.page([command.rawValue, topic.rawValue])) != nil
            #expect(isThere == !options.isEmpty)
        }
    }

    @Test func `an unknown command or topic lists the valid ones`() throws {
        #expect { try Help.page(["fly"]) } throws: { error in
            ErrorText.line(for: error)
                == "unknown command 'fly'; the commands are get, put, s3, run, check, send, import, events, work, queue, demo, help, completion, manual"
        }
        #expect { try Help.page(["run", "lists"]) } throws: { error in
            let line = ErrorText.line(for: error)
            return line.contains("'lists'")
                && line.hasSuffix("requests, network, trust, output, manifest, keys, syntax, filters, config")
        }
    }

    @Test func `a page can be requested in several ways`() async throws {
        let scratch = try Scratch()
        func page(_ arguments: String...) async throws -> String {
            let result = try await ToolProcess.run(arguments, in: scratch.url)
            #expect(result.status == 0 && result.errors.isEmpty)
            return result.output
        }
        let whole = try await page("help")
        #expect(try await page("--help") == whole)
        #expect(try whole == Help.page([]) + "\n")
        let command = try await page("help", "get")
        #expect(try await page("get", "--help") == command)
        #expect(try await page("--help", "get") == command)
        #expect(try command == Help.page(["get"]) + "\n")
        let topic = try await page("help", "get", "files")
        #expect(try await page("get", "--help", "files") == topic)
        #expect(try await page("get", "-h", "files") == topic)
        #expect(try topic == Help.page(["get", "files"]) + "\n")
        // The option works at the end of a complete command line as well.
        #expect(try await page("get", "-q", "https://example.com/", "--help") == command)
        #expect(try await page("get", "https://example.com/", "--help", "files") == topic)
    }

    // MARK: The examples

    private func example(of guide: Guide) throws -> Data {
        let example = guide.parts.lazy.compactMap { part -> [String]? in
            if case .example(let lines) = part { lines } else { nil }
        }.first
        return Data(try #require(example).joined(separator: "\n").utf8)
    }

    @Test func `the example list is valid`() throws {
        let items = try Scratch().items(ofList: example(of: .lists))
        #expect(items.map(\.urls.first?.lastPathComponent) == ["cat.png", "dog.png"])
        #expect(items.first?.name == "animals/cat.png" && items.first?.checksum != nil)
        #expect(items.last?.headers == ["Accept: image/png"])
    }

    @Test func `the example manifest is valid`() throws {
        let inputs = WorkflowInputs(environment: ["PASSWORD": "p"])
        let workflow = try Workflow(parsing: example(of: .manifest), name: "manifest", inputs: inputs)
        #expect(workflow.requestIDs == ["login", "report"])
        #expect(workflow.only(["report"])?.requestIDs == ["login", "report"])
    }

    @Test func `the help on manifests lists all keys`() throws {
        let text = Guide.keys.parts.map { part in
            switch part {
            case .text(let text): text
            case .example(let lines): lines.joined(separator: "\n")
            }
        }.joined(separator: "\n")
        let words = Set(
            text.replacing("...", with: "").split { !($0.isLetter || $0.isNumber || $0 == "-" || $0 == ".") }
                .map(String.init))
        let schema = try JSONSerialization.jsonObject(with: Data(ManifestSchema.text.utf8))
        for path in [
            ["properties"], ["properties", "defaults", "properties"], ["$defs", "request", "properties"],
            ["$defs", "expect", "properties"],
        ] {
            let members = path.reduce(schema as Any?) { ($0 as? [String: Any])?[$1] } as? [String: Any]
            let keys = try #require(members).keys
            #expect(keys.count > 5)
            #expect(keys.filter { !words.contains($0) } == [], "\(path)")
        }
    }

    @Test func `the example configuration is valid`() throws {
        let values = try Configuration.values(in: example(of: .config), home: "/home/ada")
        #expect(values["directory"] == ["/home/ada/Downloads"])
        #expect(values["no-clobber"] == [] && values["jobs"] == ["4"])
        #expect(values["resolve"] == ["example.com:443:192.0.2.1"])
    }
}
