import Foundation
import FoundationNetworking

// AFNetworking's types, constants and functions of this module, so that a port is told what has become of them in place
// of "no such name".

// MARK: Requests

/// What puts parameters into requests.
@available(*, unavailable, renamed: "URLRequestSerialization")
public typealias AFURLRequestSerialization = URLRequestSerialization

/// The serializer for queries and forms.
@available(*, unavailable, renamed: "HTTPRequestSerializer")
public typealias AFHTTPRequestSerializer = HTTPRequestSerializer

/// The serializer for JSON.
@available(*, unavailable, renamed: "JSONRequestSerializer")
public typealias AFJSONRequestSerializer = JSONRequestSerializer

/// The serializer for property lists.
@available(*, unavailable, renamed: "PropertyListRequestSerializer")
public typealias AFPropertyListRequestSerializer = PropertyListRequestSerializer

/// The parts of a form.
@available(*, unavailable, renamed: "MultipartFormData")
public typealias AFMultipartFormData = MultipartFormData

/// A field of a query.
@available(*, unavailable, renamed: "QueryStringPair")
public typealias AFQueryStringPair = QueryStringPair

/// How parameters are written in a query.
@available(*, unavailable, renamed: "QueryStringStyle")
public typealias AFHTTPRequestQueryStringSerializationStyle = QueryStringStyle

/// The style with brackets.
@available(*, unavailable, renamed: "QueryStringStyle.brackets")
public var AFHTTPRequestQueryStringDefaultStyle: QueryStringStyle { .brackets }

/// The query of parameters.
@available(*, unavailable, message: "try QueryStringStyle.brackets.queryString(from: parameters)")
public func AFQueryStringFromParameters(_ parameters: [AnyHashable: Any]) -> String { "" }

/// The fields of a query.
@available(*, unavailable, message: "try QueryStringStyle.brackets.pairs(from: parameters)")
public func AFQueryStringPairsFromDictionary(_ dictionary: [AnyHashable: Any]) -> [QueryStringPair] { [] }

/// A text with what is not allowed in a query escaped.
@available(*, unavailable, renamed: "PercentEscaping.escape(_:)")
public func AFPercentEscapedStringFromString(_ string: String) -> String { PercentEscaping.escape(string) }

/// The size of a packet on a slow network.
@available(*, unavailable, renamed: "MultipartFormData.suggestedPacketSize")
public var kAFUploadStream3GSuggestedPacketSize: Int { MultipartFormData.suggestedPacketSize }

/// The delay after a packet on a slow network.
@available(*, unavailable, renamed: "MultipartFormData.suggestedDelay")
public var kAFUploadStream3GSuggestedDelay: TimeInterval { MultipartFormData.suggestedDelay }

/// The domain of the request serializers' errors.
@available(*, unavailable, renamed: "URLRequestSerializationErrorDomain")
public var AFURLRequestSerializationErrorDomain: String { URLRequestSerializationErrorDomain }

/// The key of the request that failed.
@available(*, unavailable, renamed: "URLRequestSerializationErrorKey.failingURLRequest")
public var AFNetworkingOperationFailingURLRequestErrorKey: String { URLRequestSerializationErrorKey.failingURLRequest }

// MARK: Responses

/// What makes objects of responses.
@available(*, unavailable, renamed: "URLResponseSerialization")
public typealias AFURLResponseSerialization = URLResponseSerialization

/// The serializer that delivers the body as it is.
@available(*, unavailable, renamed: "HTTPResponseSerializer")
public typealias AFHTTPResponseSerializer = HTTPResponseSerializer

/// The serializer for JSON.
@available(*, unavailable, renamed: "JSONResponseSerializer")
public typealias AFJSONResponseSerializer = JSONResponseSerializer

/// The serializer that makes an `XMLParser`.
@available(*, unavailable, renamed: "XMLParserResponseSerializer")
public typealias AFXMLParserResponseSerializer = XMLParserResponseSerializer

/// The serializer that makes an `XMLDocument`.
@available(*, unavailable, renamed: "XMLDocumentResponseSerializer")
public typealias AFXMLDocumentResponseSerializer = XMLDocumentResponseSerializer

/// The serializer for property lists.
@available(*, unavailable, renamed: "PropertyListResponseSerializer")
public typealias AFPropertyListResponseSerializer = PropertyListResponseSerializer

/// The serializer that tries others in turn.
@available(*, unavailable, renamed: "CompoundResponseSerializer")
public typealias AFCompoundResponseSerializer = CompoundResponseSerializer

/// The domain of the response serializers' errors.
@available(*, unavailable, renamed: "URLResponseSerializationErrorDomain")
public var AFURLResponseSerializationErrorDomain: String { URLResponseSerializationErrorDomain }

/// The key of the response that is not acceptable.
@available(*, unavailable, renamed: "URLResponseSerializationErrorKey.response")
public var AFNetworkingOperationFailingURLResponseErrorKey: String { URLResponseSerializationErrorKey.response }

/// The key of that response's body.
@available(*, unavailable, renamed: "URLResponseSerializationErrorKey.data")
public var AFNetworkingOperationFailingURLResponseDataErrorKey: String { URLResponseSerializationErrorKey.data }
