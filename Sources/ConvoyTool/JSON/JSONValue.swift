import Convoy
import Foundation

/// A value in a manifest or in the configuration, with its path from the root, so that errors can include line and
/// column.
struct JSONValue {
    enum Content {
        case null
        case string(String)
        case array([JSONValue])
        case object([Member])
        case bool(Bool)
        /// A number, as written.
        case number(String)
    }

    struct Member {
        let key: String
        let value: JSONValue
        var position: JSONPosition { value.position(ofKey: true) }
    }

    private let json: JSON
    private let pointer: JSONPointer
    private let text: Data

    /// Parses the root value. Throws if more than a hundred levels are nested.
    init(parsing text: Data) throws(JSONProblem) {
        do throws(JSONSyntaxError) {
            self.init(
                json: try JSON(parsing: text, maximumDepth: 100, rejectsDuplicateKeys: true), pointer: JSONPointer(),
                text: text)
        } catch {
            throw JSONProblem(text: error.reason, position: error.position)
        }
    }

    private init(json: JSON, pointer: JSONPointer, text: Data) {
        self.json = json
        self.pointer = pointer
        self.text = text
    }

    var content: Content {
        switch json {
        case .null: .null
        case .bool(let value): .bool(value)
        case .number(let number): .number(number.text)
        case .string(let text): .string(text)
        case .array(let values): .array(values.enumerated().map { child($1, "\($0)") })
        case .object(let object):
            .object(object.members.map { Member(key: $0.key, value: child($0.value, $0.key)) })
        }
    }

    var isNull: Bool { json == .null }

    /// The value as parameters of a request.
    var parameters: ParameterValue { ParameterValue(json) }

    var position: JSONPosition { position(ofKey: false) }

    func problem(_ text: String) -> JSONProblem { JSONProblem(text: text, position: position) }

    private func child(_ json: JSON, _ token: String) -> JSONValue {
        JSONValue(json: json, pointer: pointer.appending(token), text: text)
    }

    private func position(ofKey: Bool) -> JSONPosition {
        JSONParser.position(of: pointer, key: ofKey, in: text) ?? JSONPosition()
    }
}

/// An error in a manifest or the configuration, with its position.
struct JSONProblem: Error, Equatable {
    let text: String
    let position: JSONPosition
}
