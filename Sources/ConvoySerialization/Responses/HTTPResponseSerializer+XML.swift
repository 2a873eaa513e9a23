import Foundation
import FoundationNetworking

extension HTTPResponseSerializer {
    /// The common part of the XML serializers: makes the object of a document after inspecting it.
    func xmlObject(
        for response: URLResponse?, data: Data?, maximumDepth: Int, making make: (Data) throws -> Any
    ) throws -> Any? {
        let object = try responseObject(for: response, data: data) { data in
            if HTTPResponseSerializer.isOneSpace(data) { return nil }
            let document = try XMLEncoding.utf8(of: data, for: self, response: response)
            return try make(inspected(document, maximumDepth: maximumDepth, response: response))
        }
        // In JSON an empty body is a success, as in AFNetworking. It is not an XML document.
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
                .declarations, "The document type contains declarations, with which it could expand without limit.",
                response)
        } catch .tooManyNames {
            throw NSError.limit(
                .names, "The document has too many attributes in one tag, or too many namespaces or names.", response)
        } catch .malformed(let error) {
            throw error
        }
    }
}
