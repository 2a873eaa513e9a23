import ConvoySupport
import ConvoyTransport

/// What metrics and monitors are told of the requests of a transfer.
extension OperationTransfer {
    func connection(_ connection: any Connection, willSend request: RequestHead) {
        operation(for: connection)?.story?.noteRequestStarted(request)
    }

    func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics) {
        guard let operation = operation(for: connection) else { return }
        operation.metricsRecord?.add(metrics)
        guard let story = operation.story else { return }
        if metrics.cacheUse != nil { story.noteSecrets(of: operation.connectionConfiguration) }
        let head = respondedHead.take() ?? (connection as? URLConnection)?.latestHead ?? head
        story.noteRequestEnded(metrics.statusCode == nil ? nil : head, metrics)
    }

    /// Tells monitors of a response that has begun.
    func tellStory(of operation: URLConnectionOperation, _ response: ResponseHead, _ connection: any Connection) {
        guard let story = operation.story else { return }
        // One out of a cache is told at its end.
        guard response.cacheUse == nil || response.cacheUse == .validated else { return }
        respondedHead = response
        story.noteResponded(response, (connection as? URLConnection)?.phasesSoFar)
    }
}
