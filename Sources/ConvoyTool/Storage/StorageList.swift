import ConvoyObjectStorage
import ConvoySupport
import Foundation

/// `convoy s3 list`: prints objects.
enum StorageList {
    static func run(_ options: Options, _ display: Display) throws(ToolError) -> ExitStatus {
        let locations = try options.arguments.dropFirst().map { text throws(ToolError) in
            try StorageLocation(text, options)
        }
        guard !locations.isEmpty else { throw options.usage("no object given: s3://BUCKET/PREFIX") }
        let settings = try StorageSettings(options, display)
        let printer = StoragePrinter(display: display, printsJSON: options.has("json"))
        let delimiter = options.has("recursive") ? nil : "/"
        for location in locations {
            let storage = try settings.storage(location.bucket)
            try StorageCall.result(about: location) {
                for try await page in storage.pages(prefix: location.key, delimiter: delimiter) {
                    printer.print(page, in: location.bucket)
                }
            }
        }
        return settings.transfers.finish(.success, display)
    }
}

/// Prints the results of `convoy s3 list` and `remove`, as lines for people or for programs.
struct StoragePrinter: Sendable {
    let display: Display
    let printsJSON: Bool

    /// Prints the prefixes and objects of a page in the order of their keys.
    func print(_ page: ObjectListing, in bucket: String) {
        var prefixes = page.commonPrefixes[...]
        func isBefore(_ one: String, _ other: String) -> Bool { one.utf8.lexicographicallyPrecedes(other.utf8) }
        for object in page.objects {
            while let prefix = prefixes.first, isBefore(prefix, object.key) {
                print(prefix: prefix, in: bucket)
                prefixes = prefixes.dropFirst()
            }
            print(object, in: bucket)
        }
        for prefix in prefixes { print(prefix: prefix, in: bucket) }
    }

    private func print(prefix: String, in bucket: String) {
        guard printsJSON else {
            return display.say(String(repeating: " ", count: Self.columns) + Printable.line(prefix))
        }
        var line = JSONLine()
        line.add("url", StorageLocation(bucket: bucket, key: prefix).text)
        line.add("prefix", true)
        display.emit(line.text)
    }

    private func print(_ object: StoredObject, in bucket: String) {
        let date = object.lastModified.map { $0.formatted(.iso8601) }
        guard printsJSON else {
            let time = date ?? String(repeating: " ", count: 20)
            let size = object.size.map { Amounts.bytes($0) } ?? ""
            let gap = String(repeating: " ", count: max(0, 10 - size.count))
            return display.say("\(time) \(gap)\(size)  \(Printable.line(object.key))")
        }
        var line = JSONLine()
        line.add("url", StorageLocation(bucket: bucket, key: object.key).text)
        line.add("bytes", object.size)
        line.add("entityTag", object.entityTag)
        line.add("modified", date)
        display.emit(line.text)
    }

    /// The width of the columns before a key.
    private static let columns = 33

    /// Prints a removed object or file.
    func print(removed text: String, error: ToolError?) {
        if printsJSON {
            var line = JSONLine()
            line.add("url", text)
            line.add("removed", error == nil)
            line.add("error", error?.text)
            line.add("errorCode", error.map { FailureKind($0, statusCode: nil).rawValue })
            display.emit(line.text)
        }
        if let error {
            display.complain("\(Printable.line(text)): \(error.text)", isMarked: true)
        } else if !printsJSON {
            display.say("removed \(Printable.line(text))")
        }
    }
}
