import ConvoySerialization

/// A transaction that applies operations to a document and can undo them. It keeps the replaced and removed values
/// rather than a copy of the document, so that the cost is in proportion to the changes.
struct PatchTransaction {
    private let limits: JSONPatch.Limits
    private var copiedLength = 0
    private var steps: [Step] = []

    /// A step that undoes a change.
    private enum Step {
        /// Restores the old value.
        case replace(JSONPointer, JSON)
        /// Removes a value from the container at a path.
        case remove(ArraySlice<String>, JSON.Place)
        /// Restores a value in the container at a path.
        case insert(JSON, ArraySlice<String>, JSON.Place)
        /// Moves a value back from one location to another.
        case move(from: JSONPointer, Put, to: ArraySlice<String>, JSON.Place)
    }

    /// The effect of adding a value to the document.
    private enum Put {
        case inserted(ArraySlice<String>, JSON.Place)
        case replaced(JSON)
    }

    init(limits: JSONPatch.Limits) { self.limits = limits }

    mutating func run(_ operation: JSONPatch.Operation, on document: inout JSON) throws(JSONPatchProblem) {
        switch operation {
        case .add(let path, let value):
            try checkDepth(of: value, at: path)
            switch try put(value, at: path, into: &document) {
            case .inserted(let parent, let place): steps.append(.remove(parent, place))
            case .replaced(let old): steps.append(.replace(path, old))
            }
        case .remove(let path):
            let (value, parent, place) = try take(path, from: &document)
            steps.append(.insert(value, parent, place))
        case .replace(let path, let value):
            try checkDepth(of: value, at: path)
            let old = try at(path) { () throws(JSONPatchError.Reason) in
                try document.edit(at: path.tokens[...]) { $0.exchange(for: value) }
            }
            steps.append(.replace(path, old))
        case .move(let from, let path): try move(from, path, in: &document)
        case .copy(let from, let path):
            let value = try value(at: from, in: document)
            try measure(value, at: path)
            switch try put(value, at: path, into: &document) {
            case .inserted(let parent, let place): steps.append(.remove(parent, place))
            case .replaced(let old): steps.append(.replace(path, old))
            }
        case .test(let path, let value):
            guard try self.value(at: path, in: document) == value else {
                throw JSONPatchProblem(.testFailed, path.description)
            }
        }
    }

    /// Undoes everything, the last change first.
    mutating func undo(on document: inout JSON) {
        // Each step finds the document as it was right after the change that it undoes, so nothing is thrown.
        while let step = steps.popLast() {
            switch step {
            case .replace(let path, let old): try? document.edit(at: path.tokens[...]) { $0 = old }
            case .remove(let parent, let place): _ = try? document.edit(at: parent) { $0.takeBack(from: place) }
            case .insert(let value, let parent, let place):
                try? document.edit(at: parent) { $0.restore(value, at: place) }
            case .move(_, .inserted(let parent, let place), let oldParent, let oldPlace):
                guard let value = try? document.edit(at: parent, { $0.takeBack(from: place) }) else { continue }
                try? document.edit(at: oldParent) { $0.restore(value, at: oldPlace) }
            case .move(let from, .replaced(let old), let oldParent, let oldPlace):
                guard let value = try? document.edit(at: from.tokens[...], { $0.exchange(for: old) }) else { continue }
                try? document.edit(at: oldParent) { $0.restore(value, at: oldPlace) }
            }
        }
    }

    // MARK: Steps

    private mutating func move(
        _ from: JSONPointer, _ path: JSONPointer, in document: inout JSON
    ) throws(JSONPatchProblem) {
        if from.tokens.count < path.tokens.count {
            // Only a move to a deeper location can exceed the maximum depth.
            let value = try value(at: from, in: document)
            if from.isPrefix(of: path) { throw JSONPatchProblem(.movedIntoItself, path.description) }
            try measure(value, at: path)
        } else if from == path {
            _ = try value(at: from, in: document)
            return
        }
        let (value, parent, place) = try take(from, from: &document)
        do throws(JSONPatchProblem) {
            steps.append(.move(from: path, try put(value, at: path, into: &document), to: parent, place))
        } catch {
            steps.append(.insert(value, parent, place))
            throw error
        }
    }

    private func value(at pointer: JSONPointer, in document: JSON) throws(JSONPatchProblem) -> JSON {
        try at(pointer) { () throws(JSONPatchError.Reason) in
            var value = document
            for token in pointer.tokens { value = try value.child(token) }
            return value
        }
    }

    private func take(
        _ pointer: JSONPointer, from document: inout JSON
    ) throws(JSONPatchProblem) -> (JSON, ArraySlice<String>, JSON.Place) {
        guard let token = pointer.tokens.last else { throw JSONPatchProblem(.removedRoot, "") }
        let parent = pointer.tokens.dropLast()
        let (value, place) = try at(pointer) { () throws(JSONPatchError.Reason) in
            try document.edit(at: parent) { (container: inout JSON) throws(JSONPatchError.Reason) in
                try container.take(token)
            }
        }
        return (value, parent, place)
    }

    private func put(
        _ value: JSON, at pointer: JSONPointer, into document: inout JSON
    ) throws(JSONPatchProblem) -> Put {
        guard let token = pointer.tokens.last else { return .replaced(document.exchange(for: value)) }
        let parent = pointer.tokens.dropLast()
        let effect = try at(pointer) { () throws(JSONPatchError.Reason) in
            try document.edit(at: parent) { (container: inout JSON) throws(JSONPatchError.Reason) in
                try container.put(value, token)
            }
        }
        switch effect {
        case .inserted(let place): return .inserted(parent, place)
        case .replaced(let old): return .replaced(old)
        }
    }

    private func at<Result>(
        _ pointer: JSONPointer, _ work: () throws(JSONPatchError.Reason) -> Result
    ) throws(JSONPatchProblem) -> Result {
        do throws(JSONPatchError.Reason) {
            // No document within the limit has a value at a longer pointer.
            if pointer.tokens.count > limits.maximumDepth { throw .tooDeep(maximumDepth: limits.maximumDepth) }
            return try work()
        } catch {
            throw JSONPatchProblem(error, pointer.description)
        }
    }

    // MARK: Limits

    private func checkDepth(of value: JSON, at pointer: JSONPointer) throws(JSONPatchProblem) {
        guard value.extent(maximumDepth: limits.maximumDepth - pointer.tokens.count) == .tooDeep else { return }
        throw JSONPatchProblem(.tooDeep(maximumDepth: limits.maximumDepth), pointer.description)
    }

    /// Adds the length of a copied or moved value to the total, and checks the depth of the value.
    private mutating func measure(_ value: JSON, at pointer: JSONPointer) throws(JSONPatchProblem) {
        let room = limits.maximumCopiedLength - copiedLength
        switch value.extent(maximumDepth: limits.maximumDepth - pointer.tokens.count, maximumLength: room) {
        case .bytes(let length): copiedLength += length
        case .tooDeep: throw JSONPatchProblem(.tooDeep(maximumDepth: limits.maximumDepth), pointer.description)
        case .tooLong:
            throw JSONPatchProblem(.tooLarge(maximumCopiedLength: limits.maximumCopiedLength), pointer.description)
        }
    }
}
