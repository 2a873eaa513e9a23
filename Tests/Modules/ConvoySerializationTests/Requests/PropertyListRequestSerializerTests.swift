import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct PropertyListRequestSerializerTests {
    @Test func `parameters are encoded as the body`() throws {
        let parameters: ParameterValue = [
            "a": [1, 2.5, true, "é"], "d": .data(Data([1])), "t": .date(Date(timeIntervalSince1970: 5)),
        ]
        for format in [PropertyListSerialization.PropertyListFormat.xml, .binary] {
            let request = try PropertyListRequestSerializer(format: format).request(
                method: .put, url: exampleURL, parameters: parameters)
            #expect(request.value(forHTTPHeaderField: "Content-Type") == "application/x-plist")
            var found = PropertyListSerialization.PropertyListFormat.openStep
            let object =
                try PropertyListSerialization.propertyList(
                    from: try #require(request.httpBody), format: &found) as? [String: Any]
            #expect(found == format)
            let list = try #require(object?["a"] as? [Any])
            #expect(
                list[0] as? Int == 1 && list[1] as? Double == 2.5 && list[2] as? Bool == true
                    && list[3] as? String == "é")
            #expect(object?["d"] as? Data == Data([1]))
            #expect(object?["t"] as? Date == Date(timeIntervalSince1970: 5))
        }
    }

    @Test func `nil parameters and methods that encode in the URL have no body`() throws {
        let serializer = PropertyListRequestSerializer()
        #expect(try serializer.request(method: .post, url: exampleURL).httpBody == nil)
        #expect(try serializer.request(method: .get, url: exampleURL, parameters: ["a": 1]).url?.query == "a=1")
    }

    @Test(
        arguments: [
            ["a": .null], ["a": .unsignedInteger(.max)], ["a": .double(.nan)], ["a": "\u{1}"], ["\0": 1],
            ["a": .date(.init(timeIntervalSince1970: .infinity))],
        ] as [ParameterValue])
    func `a value that is not a property list is an error`(parameters: ParameterValue) {
        let error = failure {
            try PropertyListRequestSerializer().request(method: .post, url: exampleURL, parameters: parameters)
        }
        #expect(error?.domain == URLRequestSerializationErrorDomain)
        #expect(error?.code == -1016)
        #expect(reason(error) == .invalidParameters)
    }
}
