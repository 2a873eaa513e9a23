import Foundation
import FoundationNetworking

extension HTTPResponseSerializer {
    /// What the two XML serializers share: the object of a document that was looked through before.
    func xmlObject(
        for response: URLResponse?, data: Data?, rules: XMLWellFormedness, making make: (Data) throws -> Any
    ) throws -> Any? {
        let object = try responseObject(for: response, data: data) { data in
            try xml(data, response: response, rules: rules).map(make)
        }
        // An empty body is success with nothing in JSON, by AFNetworking's rule. It is no XML document.
        if object == nil, let data, data.isEmpty, !hasNoContent(response) {
            try check(data, rules: rules, response: response)
        }
        return object
    }

    /// The bytes of a document, well-formed and in UTF-8; nil for a single space.
    private func xml(_ data: Data, response: URLResponse?, rules: XMLWellFormedness) throws -> Data? {
        if HTTPResponseSerializer.isOneSpace(data) { return nil }
        let bytes = try XMLEncoding.utf8(of: data, for: self, response: response)
        try check(bytes, rules: rules, response: response)
        return XMLHardening.withSpacedInstructions(bytes, everywhere: false)
    }

    private func check(_ bytes: Data, rules: XMLWellFormedness, response: URLResponse?) throws {
        do throws(XMLWellFormedness.Finding) {
            try rules.check(bytes)
        } catch .tooDeep {
            throw limits.nestingError(response)
        } catch .declarations {
            throw NSError.limit(
                .declarations, "The document has declarations of its own, with which it could grow without measure.",
                response)
        } catch .malformed(let error) {
            throw error
        }
    }
}
