// A program in the style of AFNetworking 2.x: handlers on the main queue, operations with dependencies, a batch.
//
//     ExamplePort http://127.0.0.1:8080/

import Convoy
import Foundation
import FoundationNetworking

guard let url = CommandLine.arguments.dropFirst().first.flatMap(URL.init(string:)) else {
    print("usage: ExamplePort URL")
    exit(2)
}
let manager = HTTPRequestOperationManager(baseURL: url)
manager.requestSerializer = JSONRequestSerializer()
manager.requestSerializer.setValue("port/1", forHTTPHeaderField: "X-Client")
manager.responseSerializer.acceptableContentTypes?.insert("application/vnd.api+json")

// This call replaces `GET:parameters:success:failure:`.
manager.get("catalogue", parameters: ["kind": "image"]) { _, object in
    let names = (object as? [String: Any])?["names"] as? [String] ?? []
    print("catalogue:", names.joined(separator: " "))
    fetch(names)
} failure: { _, error in
    print("no catalogue:", error)
    exit(1)
}

/// Fetches the images, and then posts their number.
@Sendable func fetch(_ names: [String]) {
    let images = names.compactMap { name -> HTTPRequestOperation? in
        guard let operation = try? manager.makeOperation(.get, "images/\(name)") else { return nil }
        operation.responseSerializer = HTTPResponseSerializer()
        operation.queuePriority = name == names.first ? .high : .normal
        return operation
    }
    // This call replaces `batchOfRequestOperations:progressBlock:completionBlock:`.
    let batch = URLConnectionOperation.batch(of: images) { finished, total in
        print("\(finished) of \(total)")
    } completion: { operations in
        let bytes = operations.compactMap(\.responseData?.count).reduce(0, +)
        report(count: operations.count, bytes: bytes)
    }
    manager.enqueue(batch)
}

/// Posts the report and exits.
@Sendable func report(count: Int, bytes: Int) {
    manager.post("report", parameters: ["count": count, "bytes": bytes]) { operation, _ in
        print("reported \(count) images of \(bytes) bytes: \(operation.statusCode ?? 0)")
        exit(0)
    } failure: { _, error in
        print("no report:", error)
        exit(1)
    }
}

// Handlers run on the main queue, so it must be running.
dispatchMain()
