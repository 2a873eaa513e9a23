import Foundation
import Testing

@testable import ConvoyCookies

func url(_ text: String) throws -> URL { try #require(URL(string: text)) }

func place(_ text: String) throws -> CookiePlace {
    let url = try url(text)
    return try #require(CookiePlace(url))
}

/// Returns the value of the Cookie field of a GET request.
func field(_ store: CookieStore, _ text: String) throws -> String? {
    store.field(for: CookieRequest(place: try place(text), site: nil, isSafeMethod: true))
}
