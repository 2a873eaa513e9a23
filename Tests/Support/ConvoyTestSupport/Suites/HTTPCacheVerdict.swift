/// The verdict of a test of `HTTPCacheSuite`, determined as in the suite's own client.
package enum HTTPCacheVerdict: Sendable, Hashable {
    case passed
    /// The behaviour under test did not occur.
    case failed(String)
    /// The test could not be run.
    case void(String)

    /// A response as received by the client, with the fields of one name joined.
    package struct Seen: Sendable {
        package var status: Int
        package var fields: [(name: String, value: String)]
        package var body: String

        package init(status: Int, fields: [(name: String, value: String)], body: String) {
            self.status = status
            self.fields = fields
            self.body = body
        }

        func value(_ name: String) -> String? {
            let values = fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
            return values.isEmpty ? nil : values.joined(separator: ", ")
        }
    }

    /// Determines the verdict from the responses to all steps.
    ///
    /// - Parameter seen: The responses; nil for a request that has failed.
    package init(_ origin: HTTPCacheOrigin, _ seen: [Seen?]) {
        do throws(Failure) {
            for (index, response) in seen.enumerated() {
                try Self.check(origin, index, response)
            }
            try Self.checkArrivals(origin, seen)
            self = .passed
        } catch {
            self = error.isSetup ? .void(error.text) : .failed(error.text)
        }
    }

    private struct Failure: Error {
        var isSetup: Bool
        var text: String
    }

    private static func demand(
        _ condition: Bool, isSetup: Bool, _ text: @autoclosure () -> String
    ) throws(Failure) {
        if !condition { throw Failure(isSetup: isSetup, text: text()) }
    }

    private static func check(_ origin: HTTPCacheOrigin, _ index: Int, _ response: Seen?) throws(Failure) {
        let step = origin.test.requests[index]
        let number = index + 1
        guard let response else {
            // The origin cuts off this request, and nothing replaces its response.
            let isExpected = step.expected_status == .null && step.expected_type == nil
            return try demand(isExpected, isSetup: step.setup == true, "request \(number) failed")
        }
        let count = response.value("server-request-count").flatMap { Int($0) }
        switch step.expected_type {
        case "cached":
            let isCached = count.map { $0 < number } ?? (response.status == 304)
            try demand(isCached, isSetup: step.isSetup("expected_type"), "response \(number) is not from the cache")
        case "not_cached":
            try demand(
                count == number, isSetup: step.isSetup("expected_type"), "response \(number) is from the cache")
        default: break
        }
        if let expected = step.expected_status {
            if let status = expected.number {
                try demand(
                    response.status == status, isSetup: step.isSetup("expected_status"),
                    "status \(response.status) of response \(number)")
            }
        } else if let status = step.response_status?.first?.number {
            try demand(response.status == status, isSetup: true, "status \(response.status) of response \(number)")
        } else if response.status == 999 {
            try demand(false, isSetup: step.isSetup("expected_type"), "request \(number) was not conditional")
        } else {
            try demand(response.status == 200, isSetup: true, "status \(response.status) of response \(number)")
        }
        try checkFields(origin, step, number, response)
        try checkBody(origin, step, number, response)
    }

    private static func checkFields(
        _ origin: HTTPCacheOrigin, _ step: HTTPCacheSuite.Step, _ number: Int, _ response: Seen
    ) throws(Failure) {
        for expected in step.expected_response_headers ?? [] {
            let isSetup = step.isSetup("expected_response_headers")
            let value = response.value(expected.name)
            let isRight: Bool
            switch expected.values.count {
            case 1: isRight = value != nil
            case 2:
                let now = response.value("server-now").flatMap { Int64($0) } ?? 0
                let target = response.value("server-base-url") ?? ""
                isRight =
                    value
                    == HTTPCacheOrigin.value(expected.values[1], expected.name, step, target: target, now: now)
            default:
                if expected.values[1] == .text("=") {
                    isRight = value == response.value(expected.values[2].text ?? "")
                } else {
                    isRight = value.flatMap { Int($0) }.map { $0 > expected.values[2].number ?? 0 } ?? false
                }
            }
            try demand(isRight, isSetup: isSetup, "\(expected.name) of response \(number) is \(value ?? "missing")")
        }
        for missing in step.expected_response_headers_missing ?? [] {
            let value = response.value(missing.name)
            let isRight =
                missing.values.count < 2
                ? value == nil : value.map { !$0.contains(missing.values[1].text ?? "") } ?? true
            try demand(
                isRight, isSetup: step.isSetup("expected_response_headers_missing"),
                "\(missing.name) of response \(number) is \(value ?? "")")
        }
    }

    private static func checkBody(
        _ origin: HTTPCacheOrigin, _ step: HTTPCacheSuite.Step, _ number: Int, _ response: Seen
    ) throws(Failure) {
        if step.check_body == false { return }
        if let expected = step.expected_response_text {
            guard let text = expected.text else { return }
            try demand(
                response.body == text, isSetup: step.isSetup("expected_response_text"),
                "body of response \(number): \(response.body)")
        } else if let text = step.response_body {
            try demand(response.body == text, isSetup: true, "body of response \(number): \(response.body)")
        } else if response.status != 204, response.status != 304, step.request_method != "HEAD" {
            try demand(response.body == origin.token, isSetup: true, "body of response \(number): \(response.body)")
        }
    }

    private static func checkArrivals(_ origin: HTTPCacheOrigin, _ seen: [Seen?]) throws(Failure) {
        var index = 0
        for (position, step) in origin.test.requests.enumerated() where step.expected_type != "cached" {
            let number = position + 1
            let arrival = origin.arrivals.indices.contains(index) ? origin.arrivals[index] : nil
            index += 1
            let isSetup = step.isSetup("expected_type")
            if step.expected_type == "not_cached" {
                try demand(arrival?.number == number, isSetup: isSetup, "request \(number) did not arrive")
            }
            if let type = step.expected_type, type.hasSuffix("validated") {
                let name = type == "etag_validated" ? "if-none-match" : "if-modified-since"
                try demand(arrival?.fields[name] != nil, isSetup: isSetup, "request \(number) has no \(name)")
            }
            for expected in step.expected_request_headers ?? [] {
                let value = arrival?.fields[expected.name.lowercased()]
                let isRight = expected.values.count < 2 ? value != nil : value == expected.values[1].text
                try demand(
                    isRight, isSetup: step.isSetup("expected_request_headers"),
                    "\(expected.name) of request \(number) is \(value ?? "missing")")
            }
            for missing in step.expected_request_headers_missing ?? [] {
                let value = arrival?.fields[missing.name.lowercased()]
                let isRight = missing.values.count < 2 ? value == nil : value != missing.values[1].text
                try demand(
                    isRight, isSetup: step.isSetup("expected_request_headers_missing"),
                    "\(missing.name) of request \(number) is \(value ?? "")")
            }
            if let arrival, let response = seen[position] {
                for field in arrival.sent where field.name.lowercased() != "date" {
                    let value = response.value(field.name)
                    try demand(
                        value == field.value, isSetup: true,
                        "\(field.name) of response \(number) is \(value ?? "missing")")
                }
            }
            if let method = step.expected_method {
                try demand(
                    arrival?.method == method, isSetup: step.isSetup("expected_method"),
                    "method of request \(number)")
            }
        }
    }
}
