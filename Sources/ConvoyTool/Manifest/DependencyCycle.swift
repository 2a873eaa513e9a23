/// Finds requests that wait for each other, and would wait forever.
enum DependencyCycle {
    private enum Mark { case open, done }

    /// The members of a cycle, each waiting for the next and the last for the first; nil if there is none.
    ///
    /// Without recursion, as a chain may be very long.
    static func find(in edges: [String: [String]], order: [String]) -> [String]? {
        var marks: [String: Mark] = [:]
        for start in order where marks[start] == nil {
            var path: [(node: String, next: Int)] = [(start, 0)]
            marks[start] = .open
            while let (node, next) = path.last {
                let neighbours = edges[node] ?? []
                guard next < neighbours.count else {
                    marks[node] = .done
                    path.removeLast()
                    continue
                }
                path[path.count - 1].next += 1
                let neighbour = neighbours[next]
                switch marks[neighbour] {
                case .done: continue
                case .open: return path.drop { $0.node != neighbour }.map(\.node)
                case nil:
                    marks[neighbour] = .open
                    path.append((neighbour, 0))
                }
            }
        }
        return nil
    }
}
