import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The response heads of the parts of a download: which of them belong to the same representation, and what they change.
extension Download {
    /// Returns whether to write the body of a response to the file. This method is called on the network thread.
    func accepts(_ head: ResponseHead, for id: Int) -> Bool {
        let found = state.withLock { state -> (DownloadPlan.Verdict, HTTPRequestOperation)? in
            guard !state.isStopping, !state.plan.isRestarting, state.fatal == nil, let part = state.operations[id] else {
                return nil
            }
            return (evaluate(head, id, &state), part)
        }
        guard let (verdict, part) = found else { return false }
        switch verdict {
        case .unrelated:
            if state.withLock({ $0.outcome }) == .notModified {
                state.withLock { $0.work }?.note(head, redirects: part.redirects)
            }
            return false
        case .useless, .changed, .disagrees:
            part.cancel()
            return false
        case .goesOn, .startsOver: break
        }
        let (work, isFirst, shown) = state.withLock { state in
            let isFirst = state.head == nil || verdict == .startsOver
            if isFirst { state.head = head }
            // As in other operations, expose the earlier response rather than the response that continues it.
            if verdict == .startsOver { state.earlierHead = nil }
            return (state.work, isFirst, head.statusCode == 206 ? state.earlierHead ?? head : head)
        }
        work?.hostDidAnswer()
        if isFirst {
            work?.note(shown, redirects: part.redirects)
            expectServerDigests(of: head)
            if settings.usesServerMirrors { state.withLock { $0.plan.add(MirrorLinks(head).mirrors.map(\.url)) } }
            if isUnwanted(head) {
                part.cancel()
                return false
            }
            keepShortFileInMemory()
        }
        report(0)
        startMore()
        return true
    }

    private func evaluate(_ head: ResponseHead, _ id: Int, _ state: inout DownloadState) -> DownloadPlan.Verdict {
        if head.statusCode == 304, state.condition != nil, state.plan.parts[id]?.asksForRange == false {
            state.outcome = .notModified
            state.head = head
            return .unrelated
        }
        let isPart = state.plan.parts[id]?.asksForRange == true
        let accepted = serializer.acceptableStatusCodes?.contains(head.statusCode) ?? true
        let isSuccess = (200..<300).contains(head.statusCode)
        guard accepted && isSuccess || isPart && [206, 416].contains(head.statusCode) else {
            // If the status is acceptable, the request succeeds, although it has provided no bytes.
            guard accepted, !isSuccess, let error = statusError(of: head) else { return .unrelated }
            state.failures[id] = DownloadFailure(error: error, head: head, isFinal: true)
            state.plan.refuse(id)
            return .useless
        }
        // The type is wrong if, for example, the server sends HTML instead of the file.
        let wrongType = isSuccess ? typeError(of: head) : nil
        if let error = wrongType ?? contentError(of: head, for: id, state) {
            state.failures[id] = DownloadFailure(error: error, head: head, isFinal: true)
            state.plan.refuse(id)
            return .useless
        }
        let earlier = state.plan.done.isEmpty ? nil : state.plan.total
        let verdict = state.plan.evaluate(head, for: id)
        switch verdict {
        case .startsOver:
            if let earlier, earlier != state.plan.total { state.earlierLength = earlier }
            state.file?.begin(state.plan.representation)
            state.expected = settings.checksums
            state.plan.isVerified = settings.pieces != nil || !state.expected.isEmpty
        case .disagrees:
            if head.statusCode != 206, let lengths = settings.lengths,
                head.contentLength.map({ !lengths.contains($0) }) ?? true,
                let error = settings.error(ofLength: head.contentLength)
            {
                state.failures[id] = DownloadFailure(error: error, head: head, isFinal: true)
            }
        case .goesOn where state.plan.representation?.isCombined == true: state.file?.countsOnlyIfVerified()
        case .goesOn, .useless, .changed, .unrelated: break
        }
        return verdict
    }

    /// Returns the reason why a successful response cannot be the file: it has no content, or cannot be the resource
    /// whose bytes are already stored. For example, a network that requires a login answers every request with its
    /// login page.
    private func contentError(of head: ResponseHead, for id: Int, _ state: DownloadState) -> DownloadError? {
        switch head.statusCode {
        case 204, 205: state.plan.parts[id]?.asksForRange == true ? nil : .noContent(status: head.statusCode)
        case 200, 203, 226:
            settings.acceptsUnrelatedContent ? nil : typeChange(in: head, state) ?? lengthChange(in: head, for: id, state)
        default: nil
        }
    }

    private func typeChange(in head: ResponseHead, _ state: DownloadState) -> DownloadError? {
        let hasBegun = !state.plan.done.isEmpty
        guard hasBegun || state.existing != nil || state.condition != nil,
            let actual = Representation.type(head["Content-Type"])
        else { return nil }
        if hasBegun, let expected = state.plan.representation?.type {
            return actual == expected ? nil : .changedType(expected: expected, actual: actual)
        }
        // Only the file name indicates the type of the stored bytes. Servers use several names for many types, but not
        // for HTML.
        guard actual == "text/html" || actual == "application/xhtml+xml", let path = state.finalPath else { return nil }
        let expected = MIMEType.type(forPathExtension: (path as NSString).pathExtension)
        return expected == MIMEType.unknown || expected == "text/html" || expected == "application/xhtml+xml"
            ? nil : .changedType(expected: expected, actual: actual)
    }

    /// Returns an error if the announced file is shorter than the stored bytes. Returns nil if a checksum will verify
    /// the file, or if other parts are being received, because their responses take precedence over this one.
    private func lengthChange(in head: ResponseHead, for id: Int, _ state: DownloadState) -> DownloadError? {
        let stored = max(state.plan.done.count, state.existing?.length ?? 0)
        guard let actual = head.isEncoded ? nil : head.contentLength, actual < stored, !state.plan.isVerified,
            !state.plan.parts.contains(where: { $0.key != id && $0.value.isReceiving })
        else { return nil }
        return .changedLength(stored: stored, actual: actual)
    }

    /// Returns the reason why a status is not a success, even if it is acceptable.
    private func statusError(of head: ResponseHead) -> (any Error)? {
        var strict = serializer
        strict.acceptableStatusCodes = .successful
        do {
            try strict.validate(head.urlResponse, data: Data([0]))
            return nil
        } catch {
            return error
        }
    }

    private func typeError(of head: ResponseHead) -> (any Error)? {
        guard serializer.acceptableContentTypes != nil else { return nil }
        do {
            try serializer.validate(head.urlResponse, data: Data([0]))
            return nil
        } catch {
            return error
        }
    }

    /// The maximum length, in bytes, for which the available space is not checked.
    private static let smallLength: Int64 = 256 << 10

    /// Returns whether an accepted file cannot be written, because there is not enough space or its name is taken.
    private func isUnwanted(_ head: ResponseHead) -> Bool {
        let (file, total) = state.withLock { ($0.file, $0.plan.total) }
        if let total, total > Self.smallLength, let file, let available = file.availableSpace, total > available {
            let place = finalURL ?? URL(fileURLWithPath: file.path)
            failFatally(
                DownloadFailure(
                    error: DownloadError.notEnoughSpace(needed: total, available: available, place), head: head,
                    isFinal: true))
            return true
        }
        guard finalURL == nil, let suggested = place(for: head) else { return false }
        let place = settings.placeFilter?(suggested) ?? suggested
        state.withLock { ($0.finalURL, $0.finalPath) = (place, place.path) }
        guard FileIdentity(place.path) != nil else { return false }
        switch settings.existing {
        case .fail: failFatally(DownloadFailure(error: DownloadError.fileExists(place), head: head, isFinal: true))
        case .skip: state.withLock { $0.outcome = .skipped }
        case .resume:
            var information = stat()
            guard settings.checksums.isEmpty, stat(place.path, &information) == 0, Int64(information.st_size) == total
            else { return false }
            state.withLock { $0.outcome = .skipped }
        case .revalidate, .replace: return false
        }
        return true
    }
}
