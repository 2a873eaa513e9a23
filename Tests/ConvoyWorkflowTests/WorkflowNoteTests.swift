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
        (
            "{post: \"http://a.test\", json: {a: [{\"${k}\": 1}]}}",
            "the name \"${k}\" is used as it is, because only values have references"
        ),
        (
            "{post: \"http://a.test\", json: {\"${k}\": \"${env.X}\"}}",
            "the name \"${k}\" is used as it is, because only values have references"
        ),
        (
            "{post: \"http://a.test\", form: {\"${k}\": 1}}",
            "the name \"${k}\" is used as it is, because only values have references"
        ),
        (
            "{get: \"http://a.test\", query: {\"${k}\": 1}}",
            "the name \"${k}\" is used as it is, because only values have references"
        ),
        (
            "{post: \"http://a.test\", multipart: {\"${k}\": \"1\"}}",
            "the name \"${k}\" is used as it is, because only values have references"
        ),
        (
            "{get: \"http://a.test\", expect: {json: {/a: {equals: {\"${k}\": 1}}}}}",
            "the name \"${k}\" is used as it is, because only values have references"
        ),
        ("{get: \"http://a.test/{{a.id}}\"}", "\"{{a.id}}\" is used as it is; a reference is ${NAME}"),
        (
            "{get: \"http://a.test\", headers: {X: \"{{ token }}\"}}",
            "\"{{ token }}\" is used as it is; a reference is ${NAME}"
        ),
        ("{post: \"http://a.test\", text: \"{{\\\"a\\\": {}}}\"}", nil),
    ])
    func `a manifest has notes about settings without effect`(request: String, note: String?) throws {
        let text = "requests:\n  r: \(request)\n"
        let workflow = try Workflow(
            parsing: Data(text.utf8), name: "m", inputs: WorkflowInputs(environment: ["X": "x"]))
        #expect(workflow.notes == (note.map { ["m:2: r: \($0)"] } ?? []))
    }
}
