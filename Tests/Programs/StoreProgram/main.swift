// A separate process for tests of stores and downloads that share a file, and of those that are killed.
//
//     StoreProgram cookies FILE write PREFIX COUNT   sets COUNT cookies and writes each; prints its number once it is in
//                                                    the file
//     StoreProgram cookies FILE remove NAME          removes the cookies with that name
//     StoreProgram cookies FILE full                 sets cookies while its disk is full, and afterwards; prints the
//                                                    failures and the number of cookies in memory
//     StoreProgram cookies FILE churn PREFIX SECONDS THREADS
//                                                    sets, removes and reads cookies at random; prints the number of
//                                                    wrong reads, and the remaining cookies of each thread: host name=value
//     StoreProgram cookies FILE list                 prints name=value of all cookies
//     StoreProgram cache DIRECTORY churn SEED SECONDS [THREADS]
//                                                    stores and reads responses at random until the time is over, or the
//                                                    process is killed; prints the number of reads
//     StoreProgram cache DIRECTORY put FIRST COUNT   stores responses under the keys from FIRST on
//     StoreProgram cache DIRECTORY remove FIRST COUNT
//                                                    removes the responses under the keys from FIRST on
//     StoreProgram cache DIRECTORY full              stores responses while its disk is full, and afterwards
//     StoreProgram cache DIRECTORY descriptors       stores and reads responses while it cannot open files, and afterwards
//     StoreProgram cache DIRECTORY locked            stores responses while it cannot write to the directory, and opens
//                                                    such a directory
//     StoreProgram download URL FILE [--segments N] [--counter FILE] [--limit BYTES]
//                                                    downloads a file; prints "downloaded" or the reason for the failure.
//                                                    Counts the written bytes in a file that outlives the process. With a
//                                                    limit, its files cannot exceed that size at first; then it retries
//     StoreProgram upload URL FILE CHUNK             uploads a file with tus in chunks of CHUNK bytes (0 for the default);
//                                                    prints "uploaded" or the reason for the failure
//     StoreProgram queue DIRECTORY hold              opens a queue, and keeps it open until the process is killed
//     StoreProgram queue DIRECTORY work URL COUNT    enqueues requests up to COUNT, and runs the entire queue; prints its
//                                                    progress
//     StoreProgram queue DIRECTORY full              enqueues requests while its disk is full, and afterwards
//     StoreProgram queue DIRECTORY get URL COUNT JOBS
//                                                    runs COUNT GET requests; prints the seconds without enqueuing
//     StoreProgram shared STORE get URL COUNT JOBS   runs COUNT GET requests with one worker; prints the seconds
//     StoreProgram shared STORE work JOBS LEASE      runs entries until it is killed, or SIGTERM drains it
//     StoreProgram shared STORE fill COUNT           enqueues entries that are never sent
//     StoreProgram shared STORE empty BATCH COUNT    claims and reports entries; prints their number and the seconds
import ConvoyCookies
import Foundation

let arguments = Array(CommandLine.arguments.dropFirst())

func fail(_ text: String) -> Never {
    FileHandle.standardError.write(Data((text + "\n").utf8))
    exit(2)
}

guard let kind = arguments.first else {
    fail(
        "usage: StoreProgram cookies FILE … | cache DIRECTORY … | download URL FILE … | upload URL FILE CHUNK"
            + " | queue DIRECTORY … | shared STORE …")
}
do {
    switch kind {
    case "cookies": try CookieCommands.run(Array(arguments.dropFirst()))
    case "cache": try CacheCommands.run(Array(arguments.dropFirst()))
    case "download": try DownloadCommands.run(Array(arguments.dropFirst()))
    case "upload": try await UploadCommands.run(Array(arguments.dropFirst()))
    case "queue": try await QueueCommands.run(Array(arguments.dropFirst()))
    case "shared": try await SharedCommands.run(Array(arguments.dropFirst()))
    default: fail("unknown store: \(kind)")
    }
} catch {
    fail("\(error)")
}
