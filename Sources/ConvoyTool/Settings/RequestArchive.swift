import Convoy
import ConvoySupport
import Foundation
import Glibc

/// The option for a file in the HTTP Archive format.
struct RequestArchive {
    private let recorder = HARRecorder()
    private let file: String

    var monitor: EventMonitor { recorder.monitor }

    /// Nil without the option. Whether the file can be written is seen before anything is sent.
    init?(_ options: Options) throws(ToolError) {
        guard let file = options.value("har") else { return nil }
        guard !file.isEmpty else { throw options.usage("--har needs a file") }
        let directory = PathText.directory(of: file)
        guard access(directory, W_OK | X_OK) == 0 else {
            throw .usage("--har: \(Printable.line(file)) cannot be written: \(String(cString: strerror(errno)))")
        }
        self.file = file
    }

    func finish(_ status: ExitStatus, _ display: Display) -> ExitStatus {
        let done = DispatchSemaphore(value: 0)
        let written = Locked<(any Error)?>(nil)
        recorder.log { log in
            do {
                try log.write(to: UserPath.url(file))
            } catch {
                written.withLock { $0 = error }
            }
            done.signal()
        }
        done.wait()
        guard let error = written.withLock({ $0 }) else { return status }
        display.complain("--har: \(Printable.line(file)): \(Printable.line((error as NSError).localizedDescription))")
        return status == .success ? .failed(.disk) : status
    }
}
