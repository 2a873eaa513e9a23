import Foundation

/// The tests of http-tests/cache-tests, as stored in `tests.json`. Its schema describes the members.
package struct HTTPCacheSuite: Decodable, Sendable {
    package var id: String
    package var name: String
    package var tests: [Test]

    package enum Kind: String, Decodable, Sendable {
        /// A requirement of RFC 9111.
        case required
        /// A possible improvement of a cache.
        case optimal
        /// A question without a right answer.
        case check
    }

    package struct Test: Decodable, Sendable {
        package var id: String
        package var name: String
        private var kind: Kind?
        private var depends_on: [String]?
        private var cdn_only: Bool?
        private var browser_skip: Bool?
        package var requests: [Step]

        package var effectiveKind: Kind { kind ?? .required }
        /// The tests without which this test is meaningless.
        package var dependencies: [String] { depends_on ?? [] }
        /// Whether the test applies to a private cache in a client.
        package var isForClients: Bool { cdn_only != true && browser_skip != true }
    }

    /// A request, the origin's response, and the expectations.
    package struct Step: Decodable, Sendable {
        package var request_method: String?
        package var request_headers: [[Value]]?
        package var request_body: String?
        package var query_arg: String?
        package var filename: String?
        package var cache: String?
        package var redirect: String?
        package var pause_after: Bool?
        package var disconnect: Bool?
        package var magic_locations: Bool?
        package var magic_ims: Bool?
        package var rfc850date: [String]?
        package var response_status: [Value]?
        package var response_headers: [[Value]]?
        package var response_body: String?
        package var response_pause: Int?
        package var check_body: Bool?
        package var expected_type: String?
        package var expected_method: String?
        package var expected_status: Value?
        package var expected_request_headers: [Names]?
        package var expected_request_headers_missing: [Names]?
        package var expected_response_headers: [Names]?
        package var expected_response_headers_missing: [Names]?
        package var expected_response_text: Value?
        package var setup: Bool?
        package var setup_tests: [String]?

        /// Returns whether a failure in a member means that the test cannot be run, rather than that it has failed.
        package func isSetup(_ member: String) -> Bool { setup == true || setup_tests?.contains(member) == true }

        package init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            func value<Type: Decodable>(_ key: CodingKeys) throws -> Type? {
                try container.decodeIfPresent(Type.self, forKey: key)
            }
            /// Decodes a value that may be missing or null. Null means that the member is not checked.
            func nullable(_ key: CodingKeys) throws -> Value? {
                guard container.contains(key) else { return nil }
                return try container.decodeNil(forKey: key) ? .null : container.decode(Value.self, forKey: key)
            }
            request_method = try value(.request_method)
            request_headers = try value(.request_headers)
            request_body = try value(.request_body)
            query_arg = try value(.query_arg)
            filename = try value(.filename)
            cache = try value(.cache)
            redirect = try value(.redirect)
            pause_after = try value(.pause_after)
            disconnect = try value(.disconnect)
            magic_locations = try value(.magic_locations)
            magic_ims = try value(.magic_ims)
            rfc850date = try value(.rfc850date)
            response_status = try value(.response_status)
            response_headers = try value(.response_headers)
            response_body = try value(.response_body)
            response_pause = try value(.response_pause)
            check_body = try value(.check_body)
            expected_type = try value(.expected_type)
            expected_method = try value(.expected_method)
            expected_status = try nullable(.expected_status)
            expected_request_headers = try value(.expected_request_headers)
            expected_request_headers_missing = try value(.expected_request_headers_missing)
            expected_response_headers = try value(.expected_response_headers)
            expected_response_headers_missing = try value(.expected_response_headers_missing)
            expected_response_text = try nullable(.expected_response_text)
            setup = try value(.setup)
            setup_tests = try value(.setup_tests)
        }

        private enum CodingKeys: String, CodingKey {
            case request_method, request_headers, request_body, query_arg, filename, cache, redirect, pause_after
            case disconnect, magic_locations, magic_ims, rfc850date, response_status, response_headers, response_body
            case response_pause, check_body, expected_type, expected_method, expected_status
            case expected_request_headers, expected_request_headers_missing, expected_response_headers
            case expected_response_headers_missing, expected_response_text, setup, setup_tests
        }
    }

    package enum Value: Decodable, Sendable, Hashable {
        case null
        case text(String)
        case number(Int)
        case flag(Bool)

        package init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if container.decodeNil() {
                self = .null
            } else if let text = try? container.decode(String.self) {
                self = .text(text)
            } else if let flag = try? container.decode(Bool.self) {
                self = .flag(flag)
            } else {
                self = .number(try container.decode(Int.self))
            }
        }

        package var text: String? {
            guard case .text(let text) = self else { return nil }
            return text
        }

        package var number: Int? {
            guard case .number(let number) = self else { return nil }
            return number
        }
    }

    /// A name, optionally with a value or with an operator and a value.
    package struct Names: Decodable, Sendable {
        package var values: [Value]

        package init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let name = try? container.decode(String.self) {
                values = [.text(name)]
            } else {
                values = try container.decode([Value].self)
            }
        }

        package var name: String { values.first?.text ?? "" }
    }

    /// Loads all suites of `tests.json` in a directory.
    package static func load(from directory: URL) throws -> [HTTPCacheSuite] {
        let data = try Data(contentsOf: directory.appendingPathComponent("tests.json"))
        return try JSONDecoder().decode([HTTPCacheSuite].self, from: data)
    }
}
