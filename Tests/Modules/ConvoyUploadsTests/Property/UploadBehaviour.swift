import ConvoySupport
import ConvoyTestSupport
import Foundation

/// The behaviour of a server in a case of the property test.
enum UploadBehaviour: String, CaseIterable, Sendable {
    case honest, offsetTooHigh, offsetTooLow, offsetMissing, offsetGarbage, offsetNegative, offsetHuge, offsetTwice
    case questionTooHigh, questionBeyondAll, questionMissing, questionGarbage, questionForbidden, questionWrongLength
    case losesBytes, losesAllBytesAlways, conflictOnce, conflictAlways, gone404, gone410, version412, tooLarge413
    case lockedForAWhile, lockedAlways, damagedOnce, damagedAlways, losesLastAnswer, losesLastAnswerAndForgets
    case losesAnyAnswer, cutsAnswer, resetsAnywhere, resetsBeforeAnything, redirectsCreation, redirectsCreationAsGET
    case redirectsParts, redirectsToOtherOrigin, locationMissing, locationOdd, createsWithOtherStatus, stalls
    case portalAnswers, answersEarly, unavailable503, error500, completesFalsely, otherOrigin

    /// Whether the server may report a false success.
    var mayLie: Bool { self == .answersEarly }

    func fault(_ number: Int, _ random: Double, _ request: UploadServer.Request, _ total: Int) -> UploadServer.Fault? {
        let isPart = request.method == "PATCH", isQuestion = request.method == "HEAD", isCreation = request.method == "POST"
        let carries = isPart || isCreation && !request.isTus
        func offset(_ change: @escaping @Sendable (Int) -> String?) -> UploadServer.Fault {
            .change { head, _ in
                guard let index = head.firstIndex(where: { $0.0 == "Upload-Offset" }) else { return }
                if let text = change(Int(head[index].1) ?? 0) { head[index].1 = text } else { head.remove(at: index) }
            }
        }
        func status(_ status: Int, _ fields: String = "") -> UploadServer.Fault {
            .answer("HTTP/1.1 \(status) Status\r\n\(fields)Content-Length: 0\r\nConnection: close\r\n\r\n")
        }
        let now = random < 0.4
        let isEnd = (request.number("upload-offset") ?? 0) + (request.number("content-length") ?? 0) >= total
        switch self {
        case .honest, .otherOrigin: return nil
        case .offsetTooHigh: return carries && now ? offset { "\($0 + 7)" } : nil
        case .offsetTooLow: return carries && now ? offset { "\(max(0, $0 - 7))" } : nil
        case .offsetMissing: return carries && now ? offset { _ in nil } : nil
        case .offsetGarbage: return carries && now ? offset { "\($0)x" } : nil
        case .offsetNegative: return carries && now ? offset { _ in "-1" } : nil
        case .offsetHuge: return carries && now ? offset { _ in "99999999999999999999" } : nil
        case .offsetTwice: return carries && now ? .change { head, _ in head.append(("Upload-Offset", "1")) } : nil
        case .questionTooHigh:
            return isQuestion ? offset { "\($0 + 1)" } : isPart && now ? .reset(after: Int(random * 900)) : nil
        case .questionBeyondAll: return isQuestion ? offset { _ in "\(total + 1)" } : isPart && now ? .reset(after: 9) : nil
        case .questionMissing: return isQuestion ? offset { _ in nil } : isPart && now ? .reset(after: 9) : nil
        case .questionGarbage: return isQuestion ? offset { "0x\($0)" } : isPart && now ? .reset(after: 9) : nil
        case .questionForbidden: return isQuestion ? status(403) : isPart && now ? .reset(after: 9) : nil
        case .questionWrongLength:
            if isQuestion {
                return .change { head, _ in
                    head.removeAll { $0.0 == "Upload-Length" }
                    head.append(("Upload-Length", "\(total + 1)"))
                }
            }
            return isPart && now ? .reset(after: 9) : nil
        case .losesBytes:
            return isPart && !isEnd && random < 0.2 ? .keepOnly((request.number("upload-offset") ?? 0) / 2) : nil
        case .losesAllBytesAlways: return isPart && !isEnd ? .keepOnly(0) : nil
        case .conflictOnce: return isPart && number < 4 && now ? status(409) : nil
        case .conflictAlways: return isPart ? status(409) : nil
        case .gone404, .gone410: return isPart && random < 0.3 ? .forget : nil
        case .version412: return now ? status(412, "Tus-Version: 0.2.2\r\n") : nil
        case .tooLarge413: return now ? status(413) : nil
        case .lockedForAWhile: return (isPart || isQuestion) && random < 0.5 ? status(423) : nil
        case .lockedAlways: return isPart ? status(423) : nil
        case .damagedOnce: return isPart && number < 5 ? status(460) : nil
        case .damagedAlways: return isPart ? status(460) : nil
        case .losesLastAnswer, .losesLastAnswerAndForgets:
            let end = (request.number("upload-offset") ?? 0) + (request.number("content-length") ?? 0)
            if self == .losesLastAnswerAndForgets, isQuestion, number > 2 { return .forget }
            return carries && end >= total && random < 0.7 ? .loseAnswer : nil
        case .losesAnyAnswer: return now ? .loseAnswer : nil
        case .cutsAnswer: return now ? .cutAnswer(Int(random * 400)) : nil
        case .resetsAnywhere:
            return carries && now ? .reset(after: Int(random * 2.5 * Double(request.number("content-length") ?? 1))) : nil
        case .resetsBeforeAnything: return now ? .reset(after: 0) : nil
        case .redirectsCreation: return isCreation && request.path == "/files" ? status(307, "Location: /files2\r\n") : nil
        case .redirectsCreationAsGET: return isCreation && now ? status(302, "Location: /files2\r\n") : nil
        case .redirectsParts: return isPart && random < 0.2 ? status(307, "Location: \(request.path)\r\n") : nil
        case .redirectsToOtherOrigin: return carries && now ? status(308, "Location: http://localhost:9/\r\n") : nil
        case .locationMissing: return isCreation ? .change { head, _ in head.removeAll { $0.0 == "Location" } } : nil
        case .locationOdd:
            let odd = ["http://[::1", "ftp://h/u", "http://user:pw@127.0.0.1/u", "", "http://127.0.0.1:99999/", "//"]
            let text = odd[Int(random * Double(odd.count)) % odd.count]
            return isCreation
                ? .change { head, _ in
                    head.removeAll { $0.0 == "Location" }
                    head.append(("Location", text))
                } : nil
        case .createsWithOtherStatus: return isCreation && now ? .change { _, status in status = 202 } : nil
        case .stalls: return isPart && random < 0.15 ? .stall : nil
        case .portalAnswers:
            return now
                ? .answer(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html></html>"
                )
                : nil
        case .answersEarly:
            let end = (request.number("upload-offset") ?? 0) + (request.number("content-length") ?? 0)
            let mark = request.isTus ? "Tus-Resumable: 1.0.0\r\n" : "Upload-Complete: ?1\r\n"
            return carries && random < 0.2 ? status(204, "\(mark)Upload-Offset: \(end)\r\n") : nil
        case .unavailable503: return now ? status(503, "Retry-After: 0\r\n") : nil
        case .error500: return now ? status(500) : nil
        case .completesFalsely:
            return isQuestion
                ? .change { head, _ in
                    head.removeAll { $0.0 == "Upload-Complete" }
                    head.append(("Upload-Complete", "?1"))
                } : carries && now ? .reset(after: Int(random * 900)) : nil
        }
    }
}
