// A process of its own for the tests of stores and downloads that share a file, and of those that are killed.
//
//     StoreProgram cookies FILE write PREFIX COUNT   sets COUNT cookies and writes each; prints its number once it is in
//                                                    the file
//     StoreProgram cookies FILE remove NAME          removes the cookies of that name
//     StoreProgram cookies FILE full                 sets cookies while the disk is full for it, and after that; prints
//                                                    the failures and how many there are in memory
//     StoreProgram cookies FILE churn PREFIX SECONDS THREADS
//                                                    sets, removes and reads cookies at random; prints how many reads
//                                                    were wrong, and then what each thread has left: host name=value
//     StoreProgram cookies FILE list                 prints name=value of all
//     StoreProgram cache DIRECTORY churn SEED SECONDS [THREADS]
//                                                    stores and reads responses at random until the time is over, or it
//                                                    is killed; prints how many it has read
//     StoreProgram cache DIRECTORY put FIRST COUNT   stores responses under the keys from FIRST on
//     StoreProgram cache DIRECTORY remove FIRST COUNT
//                                                    removes them
//     StoreProgram cache DIRECTORY full              stores responses while the disk is full for it, and after that
//     StoreProgram cache DIRECTORY descriptors       stores and reads responses while it can open no file, and after that
//     StoreProgram cache DIRECTORY locked            stores responses while it must not write to the directory, and opens
//                                                    such a directory
//     StoreProgram download URL FILE [--segments N] [--counter FILE] [--limit BYTES]
//                                                    downloads a file; prints "downloaded", or why not. Counts the bytes
//                                                    that it has written in a file that outlives it. With a limit, its
//                                                    files cannot become longer at first, and then it tries once more
//     StoreProgram upload URL FILE CHUNK             uploads a file by tus, so many bytes at a time (0 for the usual); prints
//                                                    "uploaded", or why not
//     StoreProgram queue DIRECTORY hold              opens a queue, and keeps it until it is killed
//     StoreProgram queue DIRECTORY work URL COUNT    enqueues requests until there are COUNT, and runs all of the queue;
//                                                    prints what it does
//     StoreProgram queue DIRECTORY full              enqueues requests while the disk is full for it, and after that
//     StoreProgram queue DIRECTORY get URL COUNT JOBS
//                                                    carries out so many GETs; prints the seconds without enqueuing
//     StoreProgram shared STORE get URL COUNT JOBS   the same by one worker
//     StoreProgram shared STORE work JOBS LEASE      carries out entries until it is killed, or SIGTERM drains it
//     StoreProgram shared STORE fill COUNT           enqueues entries that are never sent
//     StoreProgram shared STORE empty BATCH COUNT    claims and reports them; prints how many, and the seconds
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
