import Convoy
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// `--dry-run`: prints the first request of each transfer, without secrets, and sends nothing. Redirects, logins and cookies
/// that depend on the server's responses are not included.
struct Preview {
    let display: Display

    /// Prints the requests of transfers.
    ///
    /// - Returns: The exit status that the run is expected to have.
    func print(_ feed: some TransferFeed) -> ExitStatus {
        var kinds: [FailureKind] = [], isFirst = true
        func complain(_ outcome: Outcome) {
            if let kind = outcome.kind { kinds.append(kind) }
            display.complain(OutcomeText.failure(outcome), isMarked: true)
        }
        while true {
            switch feed.next() {
            case .end: return ExitStatus(failures: kinds)
            case .wait, .nothing: continue
            case .settled(let outcome):
                if outcome.error != nil { complain(outcome) } else { display.say(Self.unsent(outcome.url, outcome.file)) }
            case .transfer(let transfer):
                do {
                    let lines = try lines(of: transfer)
                    if !isFirst { display.say("") }
                    isFirst = false
                    for line in lines { display.say(Printable.line(line)) }
                } catch {
                    var outcome = Outcome(id: transfer.id, url: Shown.url(transfer.text))
                    outcome.error = ErrorText.line(for: error)
                    outcome.kind = FailureKind(error, statusCode: nil)
                    complain(outcome)
                }
                // Nothing is sent, so the transfer is finished.
                feed.hooks.finish(transfer)
            }
        }
    }

    private func lines(of transfer: Transfer) throws -> [String] {
        let name = transfer.path ?? transfer.id
        let url = Shown.url(transfer.url.withoutUserInfo.absoluteString)
        var request = transfer.operation.request
        if let download = transfer.operation as? DownloadOperation {
            guard let first = try download.firstRequest() else { return [Self.unsent(url, name)] }
            request = first
        }
        return [Self.title(url, name)] + (try head(of: request, for: transfer.operation))
    }

    private static func title(_ url: String, _ name: String?) -> String {
        Printable.line("# \(url)" + (name.map { " for \($0)" } ?? ""))
    }

    private static func unsent(_ url: String, _ name: String?) -> String {
        "\(title(url, name)): exists, nothing is sent"
    }

    private func head(of request: URLRequest, for operation: HTTPRequestOperation) throws -> [String] {
        let lines = try HeadText.lines(of: request, for: operation)
        return request.httpBody.map { lines + ["", "(a body of \(Amounts.bytes(Int64($0.count))))"] } ?? lines
    }
}
