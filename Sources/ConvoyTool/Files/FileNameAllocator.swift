/// The names that one run of the program gives to its files: no two are the same, partial files included.
struct FileNameAllocator {
    private var taken: Set<String> = []
    /// For a name that was asked for: the last number that was tried. All lower ones are taken.
    private var numbers: [String: Int] = [:]

    /// The name as it is if it is free, or else "name.1.ext", "name.2.ext" and so on.
    mutating func take(_ name: String) -> String {
        let (stem, suffix) = FileNames.parts(of: name)
        var number = numbers[name] ?? 0
        var candidate = number == 0 ? name : "\(stem).\(number)\(suffix)"
        while taken.contains(candidate) || taken.contains(FileNames.partial(of: candidate)) {
            number += 1
            candidate = "\(stem).\(number)\(suffix)"
        }
        numbers[name] = number
        taken.insert(candidate)
        taken.insert(FileNames.partial(of: candidate))
        return candidate
    }
}
