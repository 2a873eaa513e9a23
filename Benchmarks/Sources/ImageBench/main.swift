// Loads thumbnails for Benchmarks/Scripts/images.py, which compares it with C programs: `image-bench URL COUNT SIZE
// JOBS` loads URL/0.jpg, URL/1.jpg, …
#if Images
import ConvoyImage
import ConvoyOperations
import Dispatch
import Foundation
import Synchronization

let arguments = CommandLine.arguments
guard arguments.count == 5, let base = URL(string: arguments[1]), let count = Int(arguments[2]),
    let side = Int(arguments[3]), let jobs = Int(arguments[4])
else {
    print("usage: image-bench URL COUNT SIZE JOBS")
    exit(2)
}
var configuration = ImageDownloader.Configuration()
configuration.maximumActiveDownloads = jobs
// The downloader caches nothing, like the compared programs.
let downloader = ImageDownloader(manager: HTTPRequestOperationManager(), cache: nil, configuration: configuration)
let queue = DispatchQueue(label: "handlers")
let group = DispatchGroup()
let failures = Atomic<Int>(0)
for number in 0..<count {
    group.enter()
    let request = ImageRequest(
        base.appendingPathComponent("\(number).jpg"), size: ImageSize(width: side, height: side))
    downloader.load(request, on: queue) { result in
        if case .failure(let error) = result {
            failures.add(1, ordering: .relaxed)
            print(error)
        }
        group.leave()
    }
}
group.wait()
exit(failures.load(ordering: .relaxed) == 0 ? 0 : 1)
#else
print(
    "Build it with the Images trait: swift build -c release --package-path Benchmarks --product image-bench --traits Images")
#endif
