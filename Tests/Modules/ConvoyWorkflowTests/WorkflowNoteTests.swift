import Foundation
import Testing

@testable import ConvoyWorkflow

/// Notes about parts of a manifest without effect.
@Suite struct WorkflowNoteTests {
    @Test(arguments: [
        (
            "{post: \"http://a.test\", retry: 2}",
            "retry repeats a POST only if nothing of it was sent, because it may have had an effect"
        ),
        (
            "{patch: \"http://a.test\", retry: {count: 1}}",
            "retry repeats a PATCH only if nothing of it was sent, because it may have had an effect"
        ),
        ("{post: \"http://a.test\", retry: 0}", nil), ("{put: \"http://a.test\", retry: 2}", nil),
        ("{get: \"http://a.test\", retry: 2}", nil),
        ("{post: \"http://a.test\", text: \"{{\\\"a\\\": {}}}\"}", nil),
    ])
    func `a manifest has notes about settings without effect`(request: String, note: String?) throws {
        let text = "requests:\n  r: \(request)\n", defaults = "defaults: {retry: 2}\n"
        let workflow = try Workflow(
            parsing: Data(text.utf8), name: "m", inputs: WorkflowInputs(environment: ["X": "x"]))
        #expect(workflow.notes == (note.map { ["m:2: r: \($0)"] } ?? []))
        // Retries of the defaults are meant for the requests that can be repeated.
        let other = try Workflow(
            parsing: Data((defaults + text.replacing(/, retry: [^}]*}?(?=})/, with: "")).utf8), name: "m",
            inputs: WorkflowInputs(environment: [:]))
        #expect(other.notes.isEmpty)
    }
}
