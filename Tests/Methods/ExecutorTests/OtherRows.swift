import ConvoyCache
import ConvoyImage
import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import ConvoyUploads
import ConvoyWorkflow
import Foundation
import FoundationNetworking

/// The functions of modules that have only one or two async functions.
enum OtherRows {
    static let all = store + bodies + images + testServer

    private static let store = [
        row("HTTPCache.store(_:for:)", [.success]) { actor, attempt in
            defer { attempt.check(actor) }
            guard let response = HTTPURLResponse(url: attempt.url(), statusCode: 200, httpVersion: nil, headerFields: [:])
            else { return }
            await HTTPCache().store(CachedURLResponse(response: response, data: Data()), for: attempt.request())
        },
        row("HTTPCache.cachedResponse(for:)", [.success]) { actor, attempt in
            defer { attempt.check(actor) }
            _ = await HTTPCache().cachedResponse(for: attempt.request())
        },
    ]

    private static let bodies = [
        row("URLRequestSerialization.writeMultipartBody(of:to:)", [.success, .error]) { actor, attempt in
            defer { attempt.check(actor) }
            let serializer = HTTPRequestSerializer()
            let request = try serializer.multipartFormRequest(url: attempt.url()) { form in
                form.appendPart(formData: Data("text".utf8), name: "a")
            }
            let file = attempt.file(attempt.ending == .success ? "body" : "missing/body")
            _ = try await serializer.writeMultipartBody(of: request, to: file)
        },
        row("UploadOperation.terminate()") { actor, attempt in
            defer { attempt.check(actor) }
            let upload = UploadOperation(request: URLRequest(url: attempt.url("tus")), file: try attempt.writtenFile())
            upload.uploadProtocol = .tus
            _ = try? await upload.finished()
            try await upload.terminate()
        },
        row("WorkflowRun.run()", [.success]) { actor, attempt in
            defer { attempt.check(actor) }
            let manifest = "requests:\n  one:\n    url: \(attempt.url())\n"
            var options = WorkflowRun.Options()
            options.directory = attempt.directory.url
            let workflow = try Workflow(parsing: Data(manifest.utf8), name: "manifest.yaml")
            _ = await (try WorkflowRun(workflow, options: options)).run()
        },
    ]

    #if Images
    private static let images = [
        row("ImageDownloader.image(for:)") { actor, attempt in
            defer { attempt.check(actor) }
            let downloader = ImageDownloader(manager: attempt.manager, cache: nil)
            _ = try await downloader.image(for: ImageRequest(attempt.url("image.png")))
        }
    ]
    #else
    private static let images: [ExecutorRow] = []
    #endif

    private static let testServer = [
        row("TestServer.wait(timeout:until:)", isCancelledFirst: true) { actor, attempt in
            defer { attempt.check(actor) }
            let server = try TestServer()
            defer { server.stop() }
            try await server.wait(timeout: 0.01) { _ in attempt.ending == .success }
        },
        row("TestServer.waitForRequests(count:timeout:)", isCancelledFirst: true) { actor, attempt in
            defer { attempt.check(actor) }
            let server = try TestServer()
            defer { server.stop() }
            try await server.waitForRequests(count: attempt.ending == .success ? 0 : 1, timeout: 0.01)
        },
    ]
}
