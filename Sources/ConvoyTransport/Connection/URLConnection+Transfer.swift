import CCurl
import Foundation
import FoundationNetworking
import Synchronization

/// What libcurl calls back with. All on the network thread.
extension URLConnection: EasyHandleOwner {
    func easyHandle(_ handle: EasyHandle, didReceiveHeaderLine line: UnsafeRawBufferPointer) -> Bool {
        noteActivity()
        switch head.take(line) {
        case .more, .trailer: return !isCancelled
        case .refused(let reason):
            pendingFailure = URLError(.badServerResponse, url: currentRequest.url, reason)
            return false
        case .whole: return receiveHead()
        }
    }

    private func receiveHead() -> Bool {
        guard let url = currentRequest.url else { return false }
        let response = ResponseHead(
            url: url, statusCode: head.statusCode, contentLength: head.contentLength,
            isEncoded: head.isEncoded, bytes: head.bytes)
        do throws(URLError) {
            if let redirect = try Redirect(
                from: currentRequest, response: response, followed: followedRedirects,
                sensitiveHeaders: configuration.sensitiveHeaders)
            {
                ask(about: redirect)
                return true
            }
        } catch {
            pendingFailure = error
            return false
        }
        delegate?.connection(self, didReceive: response)
        return !isCancelled
    }

    func easyHandle(_ handle: EasyHandle, didReceive bytes: UnsafeRawBufferPointer) -> EasyHandle.Reception {
        guard !isCancelled, pendingFailure == nil else { return .abort }
        switch phase {
        case .deciding:
            isHeldBack = true
            return .notNow
        case .following:
            // A short rest is cheaper to read than a new connection to make.
            discarded += bytes.count
            return discarded > 64 << 10 ? .abort : .taken
        case .loading:
            if isReceivingSuspended {
                isHeldBack = true
                return .notNow
            }
            noteActivity()
            if head.isEncoded, let failure = expansionFailure(handle, bytes.count) {
                pendingFailure = failure
                return .abort
            }
            delegate?.connection(self, didReceive: bytes)
            return .taken
        case .initial, .ended: return .abort
        }
    }

    private func expansionFailure(_ handle: EasyHandle, _ count: Int) -> URLError? {
        decodedBytes += Int64(count)
        guard decodedBytes > 4 << 20, let limit = configuration.maximumExpansion else { return nil }
        let received = max(1, handle.offset(CURLINFO_SIZE_DOWNLOAD_T))
        guard Double(decodedBytes) > limit * Double(received) else { return nil }
        return URLError(
            .dataLengthExceedsMaximum, url: currentRequest.url,
            "\(received) bytes have become \(decodedBytes) by decompression: more than \(limit) times as many.")
    }

    func easyHandle(_ handle: EasyHandle, fill buffer: UnsafeMutableRawBufferPointer) -> EasyHandle.Supply {
        guard let body, !isCancelled else { return .abort }
        switch body.fill(buffer) {
        case .failed(let error):
            pendingFailure = error
            return .abort
        case .notNow:
            isStarved = true
            return .notNow
        case .bytes(let count):
            noteActivity()
            if count > 0 {
                sentBytes += Int64(count)
                delegate?.connection(self, didSendBodyData: count, total: sentBytes, totalExpected: body.length)
            }
            return .bytes(count)
        }
    }

    func easyHandleMustRewind(_ handle: EasyHandle) -> Bool {
        guard let body, body.rewind() else { return false }
        sentBytes = 0
        return true
    }

    func easyHandle(_ handle: EasyHandle, didFinishWith code: CURLcode) {
        switch phase {
        case .initial, .ended: return
        case .deciding: heldResult = code
        case .following(let request): follow(request)
        case .loading: finish(code, handle)
        }
    }

    private func finish(_ code: CURLcode, _ handle: EasyHandle) {
        if isCancelled {
            end { $0.connectionDidCancel(self) }
        } else if let failure = pendingFailure {
            end { $0.connection(self, didFailWith: failure) }
        } else if code == CURLE_OK {
            end { $0.connectionDidFinish(self) }
        } else {
            let error = URLError(
                curl: code, systemError: handle.long(CURLINFO_OS_ERRNO), text: handle.failureText,
                url: currentRequest.url)
            end { $0.connection(self, didFailWith: error) }
        }
    }

    // MARK: Redirects

    private func ask(about redirect: Redirect) {
        phase = .deciding(redirect)
        let decision = Decision()
        delegate?.connection(self, willFollow: redirect) { [weak self] request in
            guard decision.make(request), let self else { return }
            self.thread.perform { self.decided(request, redirect) }
        }
        if case .made(let request) = decision.awaitLater() { decided(request, redirect) }
    }

    private func decided(_ request: URLRequest?, _ redirect: Redirect) {
        guard case .deciding = phase else { return }
        let result = heldResult
        heldResult = nil
        if let request {
            phase = .following(request)
            if result != nil { return follow(request) }
        } else {
            phase = .loading
            delegate?.connection(self, didReceive: redirect.response)
            if let result, let handle { return finish(result, handle) }
        }
        if isHeldBack { resumeFlow() }
    }

    private func follow(_ request: URLRequest) {
        if let stream = request.httpBodyStream, stream === currentRequest.httpBodyStream {
            let error = URLError(
                .requestBodyStreamExhausted, url: request.url,
                "A redirect wants the body again, and its stream cannot be read twice.")
            return end { $0.connection(self, didFailWith: error) }
        }
        pendingFailure = nil
        followedRedirects += 1
        load(request)
    }
}

/// The answer to one question, which may be given while the question is still being asked.
private final class Decision: Sendable {
    enum State: Sendable {
        case asking
        case awaited
        case made(URLRequest?)
    }

    private let state = Locked(State.asking)

    /// True when the asker has gone on and must be told.
    func make(_ request: URLRequest?) -> Bool {
        state.withLock { state in
            switch state {
            case .asking:
                state = .made(request)
                return false
            case .awaited:
                state = .made(request)
                return true
            case .made: return false
            }
        }
    }

    /// What was answered, or a note that the answer is waited for.
    func awaitLater() -> State {
        state.withLock { state in
            if case .asking = state { state = .awaited }
            return state
        }
    }
}
