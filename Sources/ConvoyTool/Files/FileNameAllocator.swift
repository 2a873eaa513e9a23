import Convoy

/// Assigns unique names to the files of one run of the program, including its partial files.
struct FileNameAllocator {
    private var taken: Set<String> = []
    /// For each requested name, the last number that was tried. All lower ones are taken.
    private var numbers: [String: Int] = [:]

    /// The name itself if it is free, or else "name.1.ext", "name.2.ext" and so on.
    mutating func take(_ name: String) -> String {
        let (stem, suffix) = FileName.parts(of: name)
        var number = numbers[name] ?? 0
        var candidate = number == 0 ? name : "\(stem).\(number)\(suffix)"
        while taken.contains(candidate) || FileNames.companions(of: candidate).contains(where: taken.contains) {
            number += 1
            candidate = "\(stem).\(number)\(suffix)"
        }
        numbers[name] = number
        keep(candidate)
        return candidate
    }

    /// Takes a name that is not to be changed.
    mutating func keep(_ name: String) {
        taken.insert(name)
        taken.formUnion(FileNames.companions(of: name))
    }
}
