import Foundation

/// One part of a form: its headers and the source of its bytes.
struct MultipartPart {
    enum Body {
        case data(Data)
        case file(FileSource)
        case stream(StreamSource)

        var length: Int64 {
            switch self {
            case .data(let data): Int64(data.count)
            case .file(let file): file.length
            case .stream(let stream): stream.length
            }
        }
    }

    let headers: [(String, String)]
    let body: Body
}
