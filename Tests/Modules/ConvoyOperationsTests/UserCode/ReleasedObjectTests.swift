import ConvoyCache
import ConvoyCookies
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Tests that replaced settings are released outside locks, because an object's `deinit` may use the operation.
@Suite struct ReleasedObjectTests {
    /// An object that reads an operation when it is released.
    private final class Guest: @unchecked Sendable {
        private let visit: @Sendable () -> Void

        init(_ visit: @escaping @Sendable () -> Void) { self.visit = visit }

        deinit { visit() }
    }

    private final class GuestInput: InputStream {
        var guest: Guest?
    }

    private final class GuestOutput: OutputStream {
        var guest: Guest?
    }

    private final class GuestCredential: URLCredential, @unchecked Sendable {
        var guest: Guest?
    }

    private struct GuestSerializer: HTTPResponseSerialization {
        var http = HTTPResponseSerializer()
        let guest: Guest
        func responseObject(for response: URLResponse?, data: Data?) throws -> Any? { nil }
    }

    private typealias Setting = (
        name: String, set: @Sendable (HTTPRequestOperation, Guest) -> Void, clear: @Sendable (HTTPRequestOperation) -> Void
    )

    private static let settings: [Setting] = [
        ("prepare", { $0.prepare = { [guest = $1] _ in withExtendedLifetime(guest) {} } }, { $0.prepare = nil }),
        (
            "inputStream",
            {
                let stream = GuestInput(data: Data())
                stream.guest = $1
                $0.inputStream = stream
            }, { $0.inputStream = nil }
        ),
        (
            "outputStream",
            {
                let stream = GuestOutput(toMemory: ())
                stream.guest = $1
                $0.outputStream = stream
            }, { $0.outputStream = nil }
        ),
        ("userInfo", { $0.userInfo = ["guest": $1] }, { $0.userInfo = [:] }),
        (
            "downloadProgressHandler",
            { $0.downloadProgressHandler = { [guest = $1] _, _, _ in withExtendedLifetime(guest) {} } },
            { $0.downloadProgressHandler = nil }
        ),
        (
            "uploadProgressHandler",
            { $0.uploadProgressHandler = { [guest = $1] _, _, _ in withExtendedLifetime(guest) {} } },
            { $0.uploadProgressHandler = nil }
        ),
        (
            "redirectHandler",
            { $0.redirectHandler = { [guest = $1] _, request, _ in withExtendedLifetime(guest) { request } } },
            { $0.redirectHandler = nil }
        ),
        (
            "retryHandler", { $0.retryHandler = { [guest = $1] _, _ in withExtendedLifetime(guest) {} } },
            { $0.retryHandler = nil }
        ),
        (
            "authenticationChallengeHandler",
            { $0.authenticationChallengeHandler = { [guest = $1] _, _, _ in withExtendedLifetime(guest) {} } },
            { $0.authenticationChallengeHandler = nil }
        ),
        (
            "cacheResponseHandler",
            { $0.cacheResponseHandler = { [guest = $1] _, response in withExtendedLifetime(guest) { response } } },
            { $0.cacheResponseHandler = nil }
        ),
        (
            "traceContextProvider", { $0.traceContextProvider = { [guest = $1] _ in withExtendedLifetime(guest) { nil } } },
            { $0.traceContextProvider = nil }
        ),
        (
            "completionBlock", { $0.completionBlock = { [guest = $1] in withExtendedLifetime(guest) {} } },
            { $0.completionBlock = nil }
        ),
        (
            "setCompletionHandler",
            {
                $0.setCompletionHandler(
                    success: { [guest = $1] _, _ in withExtendedLifetime(guest) {} },
                    failure: { [guest = $1] _, _ in withExtendedLifetime(guest) {} })
            }, { $0.setCompletionHandler() }
        ),
        (
            "responseSerializer", { $0.responseSerializer = GuestSerializer(guest: $1) },
            { $0.responseSerializer = HTTPResponseSerializer() }
        ),
        (
            "credential",
            {
                let credential = GuestCredential(user: "a", password: "b", persistence: .none)
                credential.guest = $1
                $0.credential = credential
            }, { $0.credential = nil }
        ),
        (
            "authenticator",
            { $0.authenticator = Authenticator { [guest = $1] _ in withExtendedLifetime(guest) { AccessToken("a") } } },
            { $0.authenticator = nil }
        ),
        (
            "cookieStore",
            {
                let store = CookieStore()
                store.acceptanceHandler = { [guest = $1] _, _ in withExtendedLifetime(guest) { true } }
                $0.cookieStore = store
            }, { $0.cookieStore = nil }
        ),
        ("fail(with:)", { $0.fail(with: GuestError(guest: $1)) }, { $0.fail(with: CancellationError()) }),
        (
            "setBodySink", { $0.setBodySink(GuestSink(guest: $1)) }, { $0.setBodySink(GuestSink(guest: nil)) }
        ),
    ]

    private final class GuestSink: BodySink {
        let guest: Guest?
        init(guest: Guest?) { self.guest = guest }
        func begin(_ response: ResponseHead, discarding count: Int64) {}
        func write(_ bytes: UnsafeRawBufferPointer) {}
    }

    private struct GuestError: Error { let guest: Guest }

    @Test(arguments: settings.indices) func `a replaced setting can use its operation when it is released`(index: Int) {
        let setting = Self.settings[index]
        let visits = Atomic(0)
        let operation = HTTPRequestOperation(request: URLRequest(url: URL(fileURLWithPath: "/guest")))
        for round in 1...3 {
            let guest = Guest { [weak operation] in
                guard let operation else { return }
                _ = (
                    operation.request, operation.state, operation.completionQueue, operation.error,
                    operation.transferProgress
                )
                visits.add(1, ordering: .relaxed)
            }
            setting.set(operation, guest)
            // In the second round, the new value replaces the previous one.
            if round == 1 { setting.clear(operation) }
            withExtendedLifetime(guest) {}
        }
        setting.clear(operation)
        #expect(eventually { visits.load(ordering: .relaxed) == 3 }, "\(setting.name)")
    }

    @Test func `a replaced queue can use its manager when it is released`() {
        final class GuestQueue: OperationQueue, @unchecked Sendable {
            var guest: Guest?
        }
        let visits = Atomic(0)
        let manager = HTTPRequestOperationManager(baseURL: nil)
        do {
            let queue = GuestQueue()
            queue.guest = Guest { [weak manager] in
                withExtendedLifetime((manager?.operationQueue, manager?.retryPolicy, manager?.completionQueue)) {}
                visits.add(1, ordering: .relaxed)
            }
            manager.operationQueue = queue
        }
        manager.operationQueue = RequestOperationQueue()
        #expect(eventually { visits.load(ordering: .relaxed) == 1 })
    }

    @Test func `a replaced cookie handler can use its store when it is released`() {
        let visits = Atomic(0)
        let store = CookieStore()
        do {
            let guest = Guest { [weak store] in
                withExtendedLifetime(store?.acceptanceHandler) {}
                visits.add(1, ordering: .relaxed)
            }
            store.acceptanceHandler = { _, _ in withExtendedLifetime(guest) { true } }
        }
        store.acceptanceHandler = nil
        #expect(visits.load(ordering: .relaxed) == 1)
    }

    @Test func `a replaced refresh error can use its authenticator when it is released`() async throws {
        struct Failure: Error { let guest: Guest }
        let visits = Atomic(0)
        let present = Locked<Authenticator?>(nil)
        let authenticator = Authenticator { _ in
            throw Failure(
                guest: Guest {
                    withExtendedLifetime(present.withLock { $0 }?.token) {}
                    visits.add(1, ordering: .relaxed)
                })
        }
        present.withLock { $0 = authenticator }
        do {
            let operation = HTTPRequestOperation(request: URLRequest(url: try #require(URL(string: "http://127.0.0.1:1/"))))
            operation.authenticator = authenticator
            await #expect(throws: (any Error).self) { try await operation.finished() }
        }
        authenticator.token = AccessToken("new")
        #expect(eventually { visits.load(ordering: .relaxed) == 1 })
        present.withLock { $0 = nil }
    }
}
