import ConvoyTestSupport
import Foundation

/// Validates logs against the JSON schema of HAR 1.2, and against rules that the schema does not express.
enum HARValidator {
    static var isThere: Bool { ConformanceSuite.directory("har") != nil && Httpbin.python != nil }
    static let hint = ConformanceSuite.hint("har") + ", or CONVOY_HTTPBIN_VENV lacks Python's jsonschema"

    /// Returns the errors in a log, one per line.
    static func faults(in log: Data) throws -> String {
        guard let python = Httpbin.python, let suite = ConformanceSuite.directory("har") else { return hint }
        let result = try ProcessRunner.run(
            python, ["-c", script, suite.appendingPathComponent("schema").path], input: log, timeout: 60)
        return String(decoding: result.output + result.errors, as: UTF8.self)
    }

    private static let script = """
        import json, pathlib, sys
        from jsonschema import Draft6Validator, FormatChecker
        from referencing import Registry, Resource

        folder = pathlib.Path(sys.argv[1])
        schemas = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
        registry = Registry().with_resources(
            (name, Resource.from_contents(schema)) for name, schema in schemas.items())
        log = json.load(sys.stdin)
        validator = Draft6Validator(schemas["har.json"], registry=registry, format_checker=FormatChecker())
        for error in validator.iter_errors(log):
            print("schema:", list(error.absolute_path), error.message)
        last = ""
        pages = {page["id"] for page in log["log"]["pages"]}
        for index, entry in enumerate(log["log"]["entries"]):
            def fault(text):
                print(f"entry {index}: {text}: {json.dumps(entry)}")
            if entry["startedDateTime"] < last:
                fault("out of order")
            last = entry["startedDateTime"]
            timings = entry["timings"]
            phases = [timings[name] for name in ("blocked", "dns", "connect", "send", "wait", "receive")]
            if abs(sum(value for value in phases if value != -1) - entry["time"]) > 1e-6:
                fault("the time is not the sum of its phases")
            if timings["ssl"] != -1 and timings["ssl"] > timings["connect"]:
                fault("TLS took longer than the connection")
            if any(value < -1 or -1 < value < 0 for value in timings.values()):
                fault("a negative time")
            if entry["pageref"] not in pages:
                fault("no page")
        """
}
