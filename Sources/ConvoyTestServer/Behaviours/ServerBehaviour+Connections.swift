import Foundation

/// Behaviours of the connection rather than of the resource.
extension ServerBehaviour {
    var connectionScript: BehaviourScript {
        switch self {
        case .cutAtContentLength: return cutting { .close(afterBytes: $0) }
        case .resets: return cutting { .reset(afterBytes: $0) }
        case .stalls: return cutting { .stall(afterBytes: $0) }
        case .cutInChunks: return cutting(framing: .chunked) { .close(afterBytes: $0) }
        case .cutAtConnectionClose: return cutting(framing: .closeDelimited) { .close(afterBytes: $0) }
        case .answersLikeHEAD: return BehaviourScript(.failed).with(\.part, { $0.part().stalls(afterBytes: 0) })
        case .closesBeforeHead: return losing { $0.failing(.closeBeforeHead) }
        case .resetsBeforeHead: return losing { $0.resetBeforeHead() }
        case .cutInHead: return losing { TestServer.Response.raw("HTTP/1.1 \($0.status) Some") }
        case .switchesProtocols:
            return BehaviourScript(.failed).with(
                \.part, { _ in .raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\n\r\nbytes of the other") })
        default:
            // `notHTTP`.
            return BehaviourScript(.failed).with(\.part, { _ in .raw("220 mail.example.com ESMTP\r\n") })
        }
    }

    /// Three answers of five are cut at a random place before their end.
    private func cutting(
        framing: TestServer.Response.Framing = .automatic,
        _ fault: @escaping @Sendable (Int) -> TestServer.Effects.Fault
    ) -> BehaviourScript {
        BehaviourScript(.appended, .startedOver, .failed).with(
            \.wire,
            { exchange, response in
                guard response.status == 200 || response.status == 206 else { return response }
                let framed = response.framed(framing)
                guard exchange.chance < 0.6, framing == .chunked || response.body.count > 0 else { return framed }
                return framed.failing(fault(Int(Double(response.body.count) * exchange.point)))
            })
    }

    /// Half of the answers are lost.
    private func losing(_ loss: @escaping @Sendable (TestServer.Response) -> TestServer.Response) -> BehaviourScript {
        BehaviourScript(.appended, .startedOver, .failed).with(\.wire, { $0.chance < 0.5 ? loss($1) : $1 })
    }
}
