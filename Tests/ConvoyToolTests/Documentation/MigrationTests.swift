import Foundation
import Testing

/// What a program that was written for AFNetworking is told by the compiler.
@Suite struct MigrationTests {
    /// Lines of such programs, as Swift 2 and 3 imported the names, each with what the compiler must say of it.
    private static let port = #"""
        import Convoy
        import Foundation
        import FoundationNetworking

        func classes() {
            _ = AFURLConnectionOperation.self  //> renamed to 'URLConnectionOperation'
            _ = AFHTTPRequestOperation.self  //> renamed to 'HTTPRequestOperation'
            _ = AFHTTPRequestOperationManager.manager()  //> renamed to 'HTTPRequestOperationManager'
            _ = AFHTTPSessionManager(baseURL: nil)  //> HTTPSessionManager is planned
            _ = AFURLSessionManager.self  //> URLSessionManager is planned
            _ = AFSecurityPolicy.defaultPolicy()  //> SecurityPolicy
            _ = AFNetworkReachabilityManager.sharedManager()  //> renamed to 'NetworkReachabilityManager
            _ = AFNetworkActivityIndicatorManager.sharedManager()  //> There is no UIKit here
            _ = AFEventSource(url: URL(fileURLWithPath: "/"))  //> EventSource is planned
            _ = AFJSONRequestSerializer.serializer()  //> renamed to 'JSONRequestSerializer'
            _ = AFJSONResponseSerializer(readingOptions: [])  //> renamed to 'JSONResponseSerializer'
            _ = AFCompoundResponseSerializer.compoundSerializerWithResponseSerializers([])  //> renamed to 'CompoundResponseSerializer'
            _ = AFPropertyListRequestSerializer.self  //> renamed to 'PropertyListRequestSerializer'
            _ = AFXMLParserResponseSerializer.self  //> renamed to 'XMLParserResponseSerializer'
        }

        func constants() {
            _ = AFNetworkingOperationDidStartNotification  //> renamed to 'Notification.Name.networkingOperationDidStart'
            _ = Notification.Name.AFNetworkingOperationDidFinish  //> renamed to 'networkingOperationDidFinish'
            _ = AFNetworkingReachabilityDidChangeNotification  //> renamed to 'Notification.Name.networkingReachabilityDidChange'
            _ = AFURLRequestSerializationErrorDomain  //> renamed to 'URLRequestSerializationErrorDomain'
            _ = AFURLResponseSerializationErrorDomain  //> renamed to 'URLResponseSerializationErrorDomain'
            _ = AFNetworkingOperationFailingURLRequestErrorKey  //> renamed to 'URLRequestSerializationErrorKey.failingURLRequest'
            _ = AFNetworkingOperationFailingURLResponseErrorKey  //> renamed to 'URLResponseSerializationErrorKey.response'
            _ = AFNetworkingOperationFailingURLResponseDataErrorKey  //> renamed to 'URLResponseSerializationErrorKey.data'
            _ = kAFUploadStream3GSuggestedPacketSize  //> renamed to 'MultipartFormData.suggestedPacketSize'
            _ = AFPercentEscapedStringFromString("ä")  //> replaced by 'PercentEscaping.escape(_:)'
            _ = AFQueryStringFromParameters(["a": 1])  //> try QueryStringStyle.brackets.queryString
        }

        func operations(_ operation: HTTPRequestOperation) {
            operation.setDownloadProgressBlock { bytes, total, expected in print(bytes, total, expected) }  //> 'downloadProgressHandler'
            operation.setUploadProgressBlock({ (bytes: UInt, total: Int64, expected: Int64) -> Void in print(bytes) })  //> 'uploadProgressHandler'
            operation.setRedirectResponseBlock { connection, request, response in request }  //> 'redirectHandler'
            operation.setCacheResponseBlock { connection, response in response }  //> 'cacheResponseHandler'
            operation.setWillSendRequestForAuthenticationChallengeBlock { connection, challenge in }  //> 'authenticationChallengeHandler'
            operation.setShouldExecuteAsBackgroundTaskWithExpirationHandler { print("over") }  //> Linux suspends no program
            operation.setCompletionBlockWithSuccess({ operation, object in print(object as Any) }, failure: { operation, error in print(error.code) })  //> renamed to 'setCompletionHandler(success:failure:)'
            _ = operation.runLoopModes  //> no modes
            _ = HTTPRequestOperation.batchOfRequestOperations([operation], progressBlock: { done, total in print(done, total) }, completionBlock: { operations in print(operations) })  //> renamed to 'batch(of:progress:completion:)'
        }

        func manager(_ manager: HTTPRequestOperationManager, _ request: URLRequest) {
            manager.GET("x", parameters: ["a": 1], success: { operation, object in print(object as Any) }, failure: { operation, error in print(error) })  //> renamed to 'get(_:parameters:success:failure:)'
            manager.HEAD("x", parameters: nil, success: { operation in print(operation) }, failure: nil)  //> renamed to 'head(_:parameters:success:failure:)'
            manager.POST("x", parameters: ["a": 1], success: nil, failure: nil)  //> renamed to 'post(_:parameters:success:failure:)'
            manager.POST("x", parameters: nil, constructingBodyWithBlock: { form in print(form.boundary) }, success: nil, failure: nil)  //> renamed to 'post(_:parameters:constructingBody:success:failure:)'
            manager.PUT("x", parameters: nil, success: nil, failure: nil)  //> renamed to 'put(_:parameters:success:failure:)'
            manager.PATCH("x", parameters: nil, success: nil, failure: nil)  //> renamed to 'patch(_:parameters:success:failure:)'
            manager.DELETE("x", parameters: nil, success: nil, failure: nil)  //> renamed to 'delete(_:parameters:success:failure:)'
            _ = manager.HTTPRequestOperationWithRequest(request, success: nil, failure: nil)  //> makeOperation(request:)
            _ = AFSecurityPolicy(pinningMode: .publicKey)  //> SecurityPolicy
            _ = SecurityPolicy.certificatesInBundle("/")  //> Certificate.certificates(inDirectory:)
            manager.securityPolicy = .default  //> get-only
            _ = manager.reachabilityManager  //> Use a NetworkReachabilityManager
        }

        func serializers(_ manager: HTTPRequestOperationManager, _ form: inout MultipartFormData, _ file: URL) throws {
            _ = manager.requestSerializer.HTTPRequestHeaders  //> renamed to 'httpRequestHeaders'
            manager.requestSerializer.HTTPShouldHandleCookies = false  //> renamed to 'httpShouldHandleCookies'
            manager.requestSerializer.HTTPShouldUsePipelining = true  //> no pipelining
            manager.requestSerializer.HTTPMethodsEncodingParametersInURI = ["GET"]  //> renamed to 'httpMethodsEncodingParametersInURI'
            manager.requestSerializer.setAuthorizationHeaderFieldWithUsername("ada", password: "x")  //> renamed to 'setAuthorizationHeader(username:password:)'
            manager.requestSerializer.setQueryStringSerializationWithBlock { request, parameters, error in "" }  //> 'queryStringSerialization'
            try form.appendPartWithFileURL(file, name: "file")  //> renamed to 'appendPart(fileURL:name:)'
            try form.appendPart(withFileURL: file, name: "file", fileName: "f", mimeType: "a/b")  //> renamed to 'appendPart(fileURL:name:fileName:mimeType:)'
            form.appendPartWithFileData(Data(), name: "file", fileName: "f", mimeType: "a/b")  //> renamed to 'appendPart(fileData:name:fileName:mimeType:)'
            form.appendPartWithFormData(Data(), name: "field")  //> renamed to 'appendPart(formData:name:)'
            form.throttleBandwidthWithPacketSize(1024, delay: 0.1)  //> renamed to 'throttleBandwidth(packetSize:delay:)'
        }

        """#

    @Test(.enabled(if: SwiftCompiler.isInstalled, "swiftc is not installed"))
    func `the compiler says of each of AFNetworking's names what has become of it`() throws {
        let said = try SwiftCompiler.diagnostics(of: Self.port)
        #expect(!said.contains { $0.text.contains("no member") || $0.text.contains("cannot find") }, "\(said)")
        for (index, line) in Self.port.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            guard let mark = line.range(of: "//> ") else { continue }
            let expected = line[mark.upperBound...]
            let here = said.filter { $0.line == index + 1 }
            #expect(here.contains { $0.text.contains(expected) }, "\(line)\n\(here)")
        }
    }
}
