import Foundation
import Testing

/// The compiler diagnostics for programs that were written for AFNetworking.
@Suite struct MigrationTests {
    /// Lines of programs for AFNetworking, with the names that Swift 2 and 3 imported, and the expected diagnostic for each.
    private static let port = #"""
        import Convoy
        import ConvoyMigration
        import Foundation
        import FoundationNetworking

        func classes() {
            _ = AFURLConnectionOperation.self  //> renamed to 'URLConnectionOperation'
            _ = AFHTTPRequestOperation.self  //> renamed to 'HTTPRequestOperation'
            _ = AFHTTPRequestOperationManager.manager()  //> renamed to 'HTTPRequestOperationManager'
            _ = AFHTTPSessionManager(baseURL: nil)  //> renamed to 'HTTPSessionManager'
            _ = AFURLSessionManager.self  //> renamed to 'URLSessionManager'
            _ = AFSecurityPolicy.defaultPolicy()  //> SecurityPolicy
            _ = AFNetworkReachabilityManager.sharedManager()  //> renamed to 'NetworkReachabilityManager
            _ = AFNetworkActivityIndicatorManager.sharedManager()  //> renamed to 'NetworkActivityMonitor
            _ = AFEventSource(url: URL(fileURLWithPath: "/"))  //> renamed to 'EventSource'
            _ = AFJSONRequestSerializer.serializer()  //> renamed to 'JSONRequestSerializer'
            _ = AFJSONResponseSerializer(readingOptions: [])  //> renamed to 'JSONResponseSerializer'
            _ = AFCompoundResponseSerializer.compoundSerializerWithResponseSerializers([])  //> renamed to 'CompoundResponseSerializer'
            _ = AFHTTPClient(baseURL: nil)  //> renamed to 'HTTPRequestOperationManager'
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

        func chains(_ manager: HTTPRequestOperationManager) throws {
            try AFNetworkReachabilityManager.sharedManager().startMonitoring()  //> renamed to 'NetworkReachabilityManager'
            try AFNetworkReachabilityManager.shared().startMonitoring()  //> NetworkReachabilityManager.shared, without parentheses
            AFNetworkReachabilityManager.sharedManager().setReachabilityStatusChangeBlock { status in print(status) }  //> 'reachabilityStatusChangeHandler'
            _ = AFNetworkReachabilityManager.managerForDomain("example.com").reachable  //> renamed to 'isReachable'
            AFNetworkActivityIndicatorManager.sharedManager().enabled = true  //> renamed to 'isEnabled'
            manager.securityPolicy = AFSecurityPolicy(pinningMode: .Certificate)  //> renamed to 'certificate'
            manager.securityPolicy = AFSecurityPolicy(pinningMode: AFSSLPinningMode.PublicKey)  //> renamed to 'SecurityPolicy.PinningMode'
            print(AFSecurityPolicy.defaultPolicy().SSLPinningMode)  //> renamed to 'pinningMode'
            _ = AFContentTypeForPathExtension("png")  //> replaced by 'MIMEType.type(forPathExtension:)'
            manager.POST("x", parameters: nil, constructingBodyWithBlock: { formData in  //> renamed to 'post(_:parameters:constructingBody:success:failure:)'
                formData.appendPartWithFileData(Data(), name: "file", fileName: "f", mimeType: "a/b")  //> renamed to 'appendPart(fileData:name:fileName:mimeType:)'
                formData.appendPartWithFormData(Data(), name: "field")  //> renamed to 'appendPart(formData:name:)'
            }, success: nil, failure: nil)
        }

        func reachability(_ manager: NetworkReachabilityManager, _ task: SessionDownloadTask, _ session: URLSessionManager) {
            manager.setReachabilityStatusChangeBlock { status in print(status) }  //> 'reachabilityStatusChangeHandler'
            _ = manager.reachable  //> renamed to 'isReachable'
            _ = manager.reachableViaWWAN  //> renamed to 'isReachableViaWWAN'
            _ = manager.reachableViaWiFi  //> renamed to 'isReachableViaWiFi'
            _ = AFNetworkReachabilityStatus.unknown  //> Wired networks are .reachableViaWire
            task.cancelByProducingResumeData { data in print(data as Any) }  //> renamed to 'cancel(byProducingResumeData:)'
            session.getTasksWithCompletionHandler { data, uploads, downloads in print(data) }  //> which do not block
        }

        func events(_ source: EventSource, _ event: ServerSentEvent) {
            _ = AFServerSentEvent.self  //> renamed to 'ServerSentEvent'
            _ = AFEventSourceErrorDomain  //> EventSourceError
            _ = source.open(nil)  //> Start or enqueue the source
            _ = source.addListenerForEvent("x", usingBlock: { event in print(event) })  //> renamed to 'addListener(forEvent:using:)'
            source.removeEventListenerWithIdentifier(1)  //> renamed to 'removeListener(_:)'
            source.removeAllListenersForEvent("x")  //> renamed to 'removeAllListeners(forEvent:)'
            _ = AFJSONPatchOperation.self  //> renamed to 'JSONPatch.Operation'
            _ = AFJSONPatchResponseSerializer()  //> renamed to 'JSONPatchResponseSerializer'
            _ = AFRocketClient(baseURL: nil)  //> renamed to 'HTTPRequestOperationManager'
            _ = HTTPRequestOperationManager().SUBSCRIBE("x", usingBlock: { operations, error in print(operations as Any) }, error: nil)  //> subscribe(_:as:)
            print(event.event)  //> renamed to 'type'
            print(event.identifier)  //> renamed to 'lastEventID'
        }

        func views(_ spinner: any ActivityView, _ bar: any TransferProgressView, _ operation: HTTPRequestOperation) {
            spinner.setAnimatingWithStateOfOperation(operation)  //> renamed to 'setAnimatingWithState(of:on:)'
            bar.setProgressWithDownloadProgressOfOperation(operation, animated: true)  //> renamed to 'setProgressWithDownloadProgress(of:on:)'
            NetworkActivityMonitor.shared.setNetworkingActivityActionWithBlock { isVisible in print(isVisible) }  //> 'activityHandler'
            _ = NetworkActivityMonitor.shared.isNetworkActivityIndicatorVisible  //> renamed to 'isNetworkActivityVisible'
        }

        func operations(_ operation: HTTPRequestOperation) {
            operation.setDownloadProgressBlock { bytes, total, expected in print(bytes, total, expected) }  //> 'downloadProgressHandler'
            operation.setUploadProgressBlock({ (bytes: UInt, total: Int64, expected: Int64) -> Void in print(bytes) })  //> 'uploadProgressHandler'
            operation.setRedirectResponseBlock { connection, request, response in request }  //> 'redirectHandler'
            operation.setCacheResponseBlock { connection, response in response }  //> 'cacheResponseHandler'
            operation.setWillSendRequestForAuthenticationChallengeBlock { connection, challenge in }  //> 'authenticationChallengeHandler'
            operation.setShouldExecuteAsBackgroundTaskWithExpirationHandler { print("over") }  //> Linux does not suspend background programs
            operation.setCompletionBlockWithSuccess({ operation, object in print(object as Any) }, failure: { operation, error in print(error.code) })  //> renamed to 'setCompletionHandler(success:failure:)'
            _ = operation.runLoopModes  //> does not use a Foundation run loop
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
        }

        func session(_ manager: URLSessionManager, _ request: URLRequest, _ file: URL, _ data: Data, _ task: SessionTask) {
            _ = URLSessionManager(sessionConfiguration: nil)  //> renamed to 'init(configuration:)'
            manager.invalidateSessionCancelingTasks(true)  //> renamed to 'invalidate(cancellingTasks:)'
            manager.invalidateSessionCancelingTasks(true, resetSession: true)  //> renamed to 'invalidate(cancellingTasks:resetting:)'
            manager.attemptsToRecreateUploadTasksForBackgroundSessions = true  //> does not support background sessions
            manager.dataTaskWithRequest(request) { response, object, error in print(object as Any) }.resume()  //> renamed to 'dataTask(with:completionHandler:)'
            manager.uploadTaskWithRequest(request, fromFile: file, progress: nil, completionHandler: nil).resume()  //> renamed to 'uploadTask(with:fromFile:progress:completionHandler:)'
            manager.uploadTaskWithRequest(request, fromData: data, progress: nil, completionHandler: nil).resume()  //> renamed to 'uploadTask(with:from:progress:completionHandler:)'
            manager.uploadTaskWithStreamedRequest(request, progress: nil, completionHandler: nil).resume()  //> renamed to 'uploadTask(withStreamedRequest:progress:completionHandler:)'
            manager.downloadTaskWithRequest(request, progress: nil, destination: { file, response in file }, completionHandler: nil).resume()  //> renamed to 'downloadTask(with:progress:destination:completionHandler:)'
            manager.downloadTaskWithResumeData(data, progress: nil, destination: nil, completionHandler: nil).resume()  //> renamed to 'downloadTask(withResumeData:progress:destination:completionHandler:)'
            _ = manager.uploadProgressForTask(task)  //> task.transferProgress
            _ = manager.downloadProgress(for: task)  //> task.progress
            _ = HTTPSessionManager.manager()  //> replaced by 'init()'
            _ = HTTPSessionManager(baseURL: file, sessionConfiguration: nil)  //> renamed to 'init(baseURL:configuration:)'
        }

        func sessionBlocks(_ manager: URLSessionManager, _ file: URL) {
            manager.setSessionDidBecomeInvalidBlock { session, error in print(error as Any) }  //> 'sessionDidBecomeInvalidHandler'
            manager.setSessionDidReceiveAuthenticationChallengeBlock(nil)  //> sessionDidReceiveAuthenticationChallengeHandler
            manager.setDidFinishEventsForBackgroundURLSessionBlock { session in print(session) }  //> does not support background sessions
            manager.setTaskNeedNewBodyStreamBlock { session, task in InputStream(data: Data()) }  //> 'taskNeedNewBodyStreamHandler'
            manager.setTaskWillPerformHTTPRedirectionBlock { session, task, response, request in request }  //> 'taskWillPerformHTTPRedirectionHandler'
            manager.setTaskDidReceiveAuthenticationChallengeBlock(nil)  //> taskDidReceiveAuthenticationChallengeHandler
            manager.setAuthenticationChallengeHandler(nil)  //> taskDidReceiveAuthenticationChallengeHandler
            manager.setTaskDidSendBodyDataBlock { session, task, bytes, total, expected in print(bytes) }  //> 'taskDidSendBodyDataHandler'
            manager.setTaskDidCompleteBlock { session, task, error in print(task) }  //> 'taskDidCompleteHandler'
            manager.setTaskDidFinishCollectingMetricsBlock(nil)  //> 'taskDidFinishCollectingMetricsHandler'
            manager.setDataTaskDidReceiveResponseBlock(nil)  //> 'dataTaskDidReceiveResponseHandler'
            manager.setDataTaskDidBecomeDownloadTaskBlock { session, task, download in print(download) }  //> 'dataTaskDidBecomeDownloadTaskHandler'
            manager.setDataTaskDidReceiveDataBlock { session, task, data in print(data) }  //> 'dataTaskDidReceiveDataHandler'
            manager.setDataTaskWillCacheResponseBlock { session, task, response in response }  //> 'dataTaskWillCacheResponseHandler'
            manager.setDownloadTaskDidFinishDownloadingBlock { session, task, location in file }  //> 'downloadTaskDidFinishDownloadingHandler'
            manager.setDownloadTaskDidWriteDataBlock { session, task, bytes, total, expected in print(bytes) }  //> 'downloadTaskDidWriteDataHandler'
            manager.setDownloadTaskDidResumeBlock { session, task, offset, total in print(offset) }  //> 'downloadTaskDidResumeHandler'
        }

        func sessionVerbs(_ manager: HTTPSessionManager) {
            manager.GET("x", parameters: ["a": 1], success: { task, object in print(object as Any) }, failure: { task, error in print(error) })  //> renamed to 'get(_:parameters:success:failure:)'
            manager.HEAD("x", parameters: nil, success: { task in print(task) }, failure: nil)  //> renamed to 'head(_:parameters:success:failure:)'
            manager.POST("x", parameters: ["a": 1], success: nil, failure: nil)  //> renamed to 'post(_:parameters:success:failure:)'
            manager.POST("x", parameters: nil, constructingBodyWithBlock: { form in print(form.boundary) }, success: nil, failure: nil)  //> renamed to 'post(_:parameters:constructingBody:success:failure:)'
            manager.PUT("x", parameters: nil, success: nil, failure: nil)  //> renamed to 'put(_:parameters:success:failure:)'
            manager.PATCH("x", parameters: nil, success: nil, failure: nil)  //> renamed to 'patch(_:parameters:success:failure:)'
            manager.DELETE("x", parameters: nil, success: nil, failure: nil)  //> renamed to 'delete(_:parameters:success:failure:)'
            _ = manager.dataTask(withHTTPMethod: "GET", urlString: "x", parameters: nil, headers: nil, uploadProgress: nil, downloadProgress: nil, success: nil, failure: nil)  //> renamed to 'dataTask(_:_:parameters:headers:success:failure:)'
        }

        func sessionConstants() {
            _ = AFNetworkingTaskDidResumeNotification  //> renamed to 'Notification.Name.networkingTaskDidResume'
            _ = AFNetworkingTaskDidStartNotification  //> renamed to 'Notification.Name.networkingTaskDidResume'
            _ = AFNetworkingTaskDidSuspendNotification  //> renamed to 'Notification.Name.networkingTaskDidSuspend'
            _ = AFNetworkingTaskDidFinishNotification  //> renamed to 'Notification.Name.networkingTaskDidComplete'
            _ = Notification.Name.AFNetworkingTaskDidComplete  //> renamed to 'networkingTaskDidComplete'
            _ = AFURLSessionDidInvalidateNotification  //> renamed to 'Notification.Name.networkingSessionDidInvalidate'
            _ = AFURLSessionDownloadTaskDidFailToMoveFileNotification  //> renamed to 'Notification.Name.networkingDownloadTaskDidFailToMoveFile'
            _ = Notification.Name.AFURLSessionDownloadTaskDidMoveFileSuccessfully  //> renamed to 'networkingDownloadTaskDidMoveFile'
            _ = AFNetworkingTaskDidCompleteSerializedResponseKey  //> renamed to 'TaskNotificationKey.serializedResponse'
            _ = AFNetworkingTaskDidCompleteResponseSerializerKey  //> renamed to 'TaskNotificationKey.responseSerializer'
            _ = AFNetworkingTaskDidCompleteResponseDataKey  //> renamed to 'TaskNotificationKey.responseData'
            _ = AFNetworkingTaskDidCompleteErrorKey  //> renamed to 'TaskNotificationKey.error'
            _ = AFNetworkingTaskDidCompleteAssetPathKey  //> renamed to 'TaskNotificationKey.assetPath'
            _ = AFNetworkingTaskDidFinishAssetPathKey  //> renamed to 'TaskNotificationKey.assetPath'
            _ = AFNetworkingTaskDidCompleteSessionTaskMetrics  //> renamed to 'TaskNotificationKey.metrics'
        }

        func serializers(_ manager: HTTPRequestOperationManager, _ form: inout MultipartFormData, _ file: URL) throws {
            _ = manager.requestSerializer.HTTPRequestHeaders  //> renamed to 'httpRequestHeaders'
            manager.requestSerializer.HTTPShouldHandleCookies = false  //> renamed to 'httpShouldHandleCookies'
            manager.requestSerializer.HTTPShouldUsePipelining = true  //> does not support pipelining
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
    func `the compiler names the replacement of each AFNetworking name`() throws {
        let said = try SwiftCompiler.diagnostics(of: Self.port)
        let unhelpful = ["no member", "cannot find", "mutating", "ambiguous", "cannot convert", "has no"]
        #expect(!said.contains { message in unhelpful.contains { message.text.contains($0) } }, "\(said)")
        for (index, line) in Self.port.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            guard let mark = line.range(of: "//> ") else { continue }
            let expected = line[mark.upperBound...]
            let here = said.filter { $0.line == index + 1 }
            #expect(here.contains { $0.text.contains(expected) }, "\(line)\n\(here)")
        }
    }
}
