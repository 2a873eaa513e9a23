import ConvoySupport
import Foundation
import FoundationNetworking

extension DownloadOperation {
    /// What the operation, which has finished, has left beside a destination whose name is made for that; nil where there
    /// is nothing to go on from: no bytes, none that anything could be added to, or the whole file.
    package final var resumeData: ResumeData? {
        guard isFinished, outcome == nil, let url = request.url?.absoluteURL, let destination,
            let download = download.withLock({ $0 })
        else { return nil }
        let (representation, done) = download.state.withLock { ($0.plan.representation, $0.plan.done) }
        guard let representation else { return nil }
        return ResumeData(url: url, name: PathText.name(of: destination.path), representation, done)
    }
}
