import Foundation
import FoundationNetworking

extension HTTPResponseSerializer {
    /// What the two XML serializers share: the object of a document that was looked through before.
    func xmlObject(
        for response: URLResponse?, data: Data?, maximumDepth: Int, making make: (Data) throws -> Any
    ) throws -> Any? {
        let object = try responseObject(for: response, data: data) { data in
            if HTTPResponseSerializer.isOneSpace(data) { return nil }
            let document = try XMLEncoding.utf8(of: data, for: self, response: response)
            return try make(inspected(document, maximumDepth: maximumDepth, response: response))
        }
        // An empty body is success with nothing in JSON, by AFNetworking's rule. It is no XML document.
        if object == nil, let data, data.isEmpty, !hasNoContent(response) {
            _ = try inspected(data, maximumDepth: maximumDepth, response: response)
        }
        return object
    }

    private func inspected(_ document: Data, maximumDepth: Int, response: URLResponse?) throws -> Data {
        do throws(XMLInspection.Finding) {
            return try XMLInspection.document(of: document, maximumDepth: maximumDepth)
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
