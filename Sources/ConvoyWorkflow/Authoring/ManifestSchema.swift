import ConvoySerialization
import Foundation

/// The JSON Schema of manifests, for editors (draft 2020-12). It is generated from the keys that the readers support.
package enum ManifestSchema {
    /// The schema as a string.
    package static var text: String {
        let data = try? JSONSerialization.jsonObject(with: Data(json.description.utf8))
        let options: JSONSerialization.WritingOptions = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let pretty = data.flatMap { try? JSONSerialization.data(withJSONObject: $0, options: options) } ?? Data()
        return String(decoding: pretty, as: UTF8.self) + "\n"
    }

    static var json: JSON {
        [
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A manifest of convoy run",
            "type": "object", "additionalProperties": false,
            "anyOf": [["required": ["requests"]], ["required": ["include"]]],
            "properties": object(ManifestReader.keys) { key in
                switch key {
                case "version": ["const": 1]
                case "baseURL": text("The base URL of the requests.")
                case "variables":
                    [
                        "type": "object",
                        "description": "The variables and their values. A null value must be set with --var.",
                    ]
                case "include":
                    [
                        "type": ["string", "array"], "items": anyText,
                        "description": "Other manifests, relative to this one.",
                    ]
                case "secrets", "secrets-for": ["type": "array", "items": ["type": "string"]]
                case "defaults": closed(ManifestReader.defaultKeys, member)
                case "requests":
                    [
                        "type": "object", "minProperties": 1, "propertyNames": ["pattern": "^[A-Za-z_][A-Za-z0-9_-]*$"],
                        "additionalProperties": ["$ref": "#/$defs/request"],
                    ]
                default: [:]
                }
            },
            "$defs": ["request": closed(RequestReader.keys, member), "expect": closed(ExpectationReader.keys, expectation)],
        ]
    }

    // MARK: The members

    private static let anyText: JSON = ["type": "string"]
    private static let mapping: JSON = ["type": "object"]
    private static let time: JSON = [
        "type": ["number", "string"], "description": "Seconds, or a time such as 500ms or 5m.",
    ]
    private static let size: JSON = ["type": ["integer", "string"], "description": "Bytes, or a size such as 50MB."]

    private static func text(_ description: String) -> JSON { ["type": "string", "description": .string(description)] }

    private static func whole(from least: Int, to most: Int) -> JSON {
        ["type": "integer", "minimum": .number(JSONNumber(least)), "maximum": .number(JSONNumber(most))]
    }

    private static func object(_ keys: [String], _ value: (String) -> JSON) -> JSON {
        var object = JSONObject()
        for key in keys { object[key] = value(key) }
        return .object(object)
    }

    private static func closed(_ keys: [String], _ value: (String) -> JSON) -> JSON {
        ["type": "object", "additionalProperties": false, "properties": object(keys, value)]
    }

    private static func member(_ key: String) -> JSON {
        switch key {
        case let verb where RequestReader.verbs.contains(verb): return text("The URL of a \(verb.uppercased()).")
        case "query", "form", "multipart": return ["type": ["object", "array"], "items": mapping]
        case "headers", "resolve", "connect-to", "cookies": return mapping
        case "json": return ["description": "The body, as JSON."]
        case "bearer": return text("The token.")
        case "basic": return closed(["user", "password"]) { _ in anyText }
        case "expect":
            let expectations: JSON = ["$ref": "#/$defs/expect"], expression: JSON = ["type": ["string", "boolean"]]
            return ["oneOf": [expectations, ["type": "array", "items": ["oneOf": [expression, expectations]]]]]
        case "capture": return ["type": "object", "additionalProperties": ["type": ["string", "object"]]]
        case "after", "tags": return ["type": ["string", "array"], "items": anyText]
        case "when": return ["type": ["string", "boolean"]]
        case "forEach": return ["type": ["string", "array"]]
        case "parallel", "perHost", "jobs": return whole(from: 1, to: 256)
        case "perSecond": return ["type": "number", "exclusiveMinimum": 0]
        case "onFailure": return ["enum": .array(FailureRule.allCases.map { .string($0.rawValue) })]
        case "poll":
            return closed(["until", "every", "for", "backoff"]) { key in
                switch key {
                case "until": ["type": ["string", "boolean"]]
                case "backoff": ["type": "number", "minimum": 1, "maximum": 100]
                default: time
                }
            }
        case "follow": return ["type": ["string", "object"]]
        case "pages": return whole(from: 1, to: 100_000)
        case "events":
            return closed(["type", "matches", "json", "for"]) { $0 == "for" ? time : $0 == "json" ? mapping : anyText }
        case "retry":
            return [
                "oneOf": [
                    whole(from: 0, to: 1000),
                    closed(["count", "on", "maxTime"]) { key in
                        switch key {
                        case "count": whole(from: 0, to: 1000)
                        case "on": ["type": "array", "items": whole(from: 400, to: 599)]
                        default: time
                        }
                    },
                ]
            ]
        case "timeout", "delay", "connect-timeout", "max-time": return time
        case "limit-rate", "limit-rate-each", "min-rate": return size
        case "max-redirs": return whole(from: 0, to: 1000)
        case "http1.0", "http1.1", "insecure", "ipv4", "ipv6", "location-trusted", "path-as-is": return ["type": "boolean"]
        case "tls-min": return ["enum": [1.2, 1.3, "1.2", "1.3"]]
        default: return anyText
        }
    }

    private static func expectation(_ key: String) -> JSON {
        switch key {
        case "status": ["type": ["integer", "string", "array"]]
        case "header", "json": mapping
        case "bytes", "minBytes", "maxBytes": size
        case "maxTime": time
        default: anyText
        }
    }
}
