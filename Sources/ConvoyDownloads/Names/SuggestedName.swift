import ConvoyTransport
import Foundation

enum SuggestedName {
    static func name(of head: ResponseHead) -> String { name(of: head.url) }
    static func name(of url: URL) -> String { url.lastPathComponent }
}
