/// A correct or incorrect behaviour of a server towards a client that resumes a download, for use with
/// `TestServer.route(_:behaving:size:seed:)`.
///
/// Whatever a server does, a client must end up with the right bytes or with an error. `outcomes` lists the possible
/// outcomes of a download that is paused halfway and resumed, `isHonest` marks behaviours for which an error is the
/// client's fault, and `isUndetectable` marks behaviours whose wrong bytes no client can detect.
public enum ServerBehaviour: String, CaseIterable, Sendable, Codable {
    // MARK: Conforming to RFC 9110

    /// A strong `ETag`, correct evaluation of `If-Range` and `Range`, and correct 206 and 416 responses.
    case honest
    /// The behaviour of `honest`, with a `Last-Modified` years before `Date`, and no `ETag`.
    case honestByDate
    /// The behaviour of `honest`, with the complete body in chunks, so that its length is unknown at first.
    case honestInChunks
    /// Chunks with trailer fields that look like validators, lengths and ranges (RFC 9110, section 6.5).
    case misleadingTrailers
    /// 103 responses before the 206, with their own `ETag`, `Content-Length` and `Content-Range`.
    case misleadingInterimResponses
    /// Always a 200 with the complete body and `Accept-Ranges: none`.
    case ignoresRange
    /// No validators and different bytes each time, although ranges are supported.
    case noValidator
    /// A weak `ETag` that stays the same while the bytes change, as RFC 9110 allows, and that never matches `If-Range`.
    case weakEntityTag
    /// A different representation with a different `ETag` for each request.
    case changesBetweenRequests
    /// The behaviour of `changesBetweenRequests`, with each representation half as long as the previous one.
    case shrinksBetweenRequests
    /// A 206 with half of the requested range and a correct `Content-Range`, which is allowed.
    case partOfRange
    /// A redirect of every request to an honest URL.
    case redirectsAlways
    /// The complete body as gzip with a strong `ETag`, and ranges of the encoded bytes.
    case gzip
    /// A gzip body of two members (RFC 1952, section 2.2).
    case gzipOfTwoMembers
    /// A 203 instead of a 200.
    case nonAuthoritative

    // MARK: Validators

    /// A different representation for each request. `If-Range` is ignored: the 206 is part of the new representation
    /// and has its `ETag`.
    case ignoresIfRange
    /// The behaviour of `ignoresIfRange`, with the complete body in chunks.
    case ignoresIfRangeInChunks
    /// The behaviour of `ignoresIfRange`, with `Last-Modified` as the only validator.
    case ignoresIfRangeByDate
    /// The behaviour of `ignoresIfRange`, but the 206 has no `ETag`, although RFC 9110, section 15.3.7, requires it.
    case partWithoutEntityTag
    /// The behaviour of `ignoresIfRangeByDate`, but the 206 has no `Last-Modified`.
    case partWithoutLastModified
    /// A strong `ETag` on the 200, and its weak form on a 206 with different bytes.
    case partWithWeakEntityTag
    /// A 206 of a different entity, as its `ETag` shows.
    case partWithOtherEntityTag
    /// Validators on the 206 only, and different bytes each time.
    case validatorsOnPartOnly
    /// A weak `ETag` that `If-Range` matches as if it were strong, and different bytes each time.
    case weakEntityTagTakenForStrong
    /// `w/"…"`, which is not an entity tag, and different bytes each time.
    case lowercaseWeakEntityTag
    /// An `ETag` without quotes; the bytes stay the same.
    case unquotedEntityTag
    /// An `ETag` with a quote inside; the bytes stay the same.
    case quoteInsideEntityTag
    /// `ETag: ""`, which is a strong tag; the bytes stay the same.
    case emptyEntityTag
    /// Two `ETag` fields, one of which never changes, and different bytes each time.
    case twoEntityTags
    /// A `Last-Modified` that changes while the strong `ETag` and the bytes stay the same.
    case lastModifiedChangesAlone
    /// A `Last-Modified` equal to the time of the response, and bytes that change within that second.
    case youngLastModified
    /// A `Last-Modified` after `Date`, and bytes that change.
    case futureLastModified
    /// An old `Last-Modified` that stays the same, no `Date`, and different bytes each time.
    case lastModifiedWithoutDate
    /// A `Last-Modified` that is not a date, and different bytes each time.
    case unreadableLastModified
    /// Dates with years that overflow a machine word, and different bytes each time.
    case overflowingDates
    /// One strong `ETag` that never changes, and different bytes each time.
    case entityTagNeverChanges
    /// One old `Last-Modified` that never changes, and different bytes each time.
    case lastModifiedNeverChanges

    // MARK: Ranges

    /// A range that begins one byte before or after the requested one, with a matching `Content-Range`.
    case rangeOffByOne
    /// The right bytes under a `Content-Range` that begins one byte later.
    case contentRangeOffByOne
    /// Bytes from a different offset under the requested `Content-Range`.
    case bytesFromAnotherOffset
    /// The right bytes under a `Content-Range` with a wrong complete length.
    case otherCompleteLength
    /// A 206 without a `Content-Range`.
    case noContentRange
    /// Two `Content-Range` fields that differ.
    case twoContentRanges
    /// A `Content-Range` that ends before it begins.
    case invertedContentRange
    /// A `Content-Range` without its unit.
    case contentRangeWithoutUnit
    /// A `Content-Range` in a unit other than bytes.
    case otherRangeUnit
    /// A `Content-Range` with negative numbers.
    case negativeContentRange
    /// A `Content-Range` with numbers that overflow a machine word.
    case overflowingContentRange
    /// `multipart/byteranges` for a single range.
    case multipartByteranges
    /// The behaviour of `multipartByteranges`, with a `Content-Range` for the entire response.
    case multipartByterangesWithContentRange
    /// A 206 with the complete body, beginning at its first byte.
    case wholeAsPart
    /// A 206 for a request without `Range`.
    case unaskedPart
    /// The complete body for the first request, then always a 206, even without `Range`.
    case unaskedPartLater
    /// A 200 with only the rest of the body, its `Content-Range` and the `ETag` of the complete body.
    case restAsWhole

    // MARK: Lengths

    /// The complete body in chunks, and a 206 with half of the requested range and the total length.
    case partOfPartAfterChunks
    /// The complete body in chunks, and a 206 with half of the requested range and `*` as the total length.
    case partOfPartWithUnknownTotal
    /// The complete body in chunks, and a 206 with a correct `Content-Range` whose connection closes before its body
    /// ends.
    case partCutAtConnectionClose
    /// The complete body in chunks, and a 206 with a correct `Content-Range` whose chunks end early with a proper last
    /// chunk.
    case partEndsEarlyInChunks
    /// The complete body in chunks, and a 206 with a correct `Content-Range` but fewer bytes, and a matching
    /// `Content-Length`.
    case partWithSmallerContentLength
    /// A correct `Content-Range` and body, but a `Content-Length` that is five bytes larger.
    case partWithLargerContentLength
    /// A body with five bytes more than the `Content-Range` specifies, and a `Content-Length` that includes them.
    case partWithExtraBytes
    /// The behaviour of `partWithExtraBytes`, with the complete body in chunks.
    case partWithExtraBytesAfterChunks
    /// A chunked body with five bytes more than the `Content-Range` specifies.
    case partWithExtraBytesInChunks
    /// A 206 with a `Content-Length` that overflows a machine word.
    case overflowingContentLength
    /// A chunked body with a `Content-Length` of half its size (RFC 9112, section 6.3).
    case contentLengthBesideChunks

    // MARK: Encodings

    /// The unencoded body for the first request, and the complete body as gzip for a range request.
    case gzipAnswerToRange
    /// The unencoded body for the first request, and a 206 with a part of the gzip bytes and a `Content-Encoding`.
    case gzipPart
    /// The body as gzip for the first request, and a 206 with a part of the unencoded bytes.
    case identityPartOfGzip
    /// The behaviour of `identityPartOfGzip`, with the gzip in chunks and two `Content-Encoding` fields: `gzip`, then
    /// `identity`.
    case gzipThenIdentity
    /// `Transfer-Encoding: gzip, chunked`.
    case gzipTransferCoding
    /// A truncated gzip body with a matching `Content-Length`.
    case gzipCutShort
    /// A `Content-Encoding` that no client supports.
    case unknownContentEncoding

    // MARK: Statuses

    /// A 416 with the true length for every range request.
    case alwaysUnsatisfiable
    /// A 416 with the client's offset as the complete length, although the 200 had a different one.
    case unsatisfiableAtOffset
    /// The behaviour of `unsatisfiableAtOffset`, with the complete body in chunks, so that its length is unknown.
    case unsatisfiableAtOffsetAfterChunks
    /// A 416 without a `Content-Range`.
    case unsatisfiableWithoutLength
    /// A 204 for a range request.
    case noContent
    /// A 200 for a range request, with an empty body and its own `ETag`.
    case emptyWhole
    /// A 304 for a range request.
    case notModified
    /// A 412 for a range request.
    case preconditionFailed
    /// A 410 for a range request.
    case gone
    /// A 500 for a range request.
    case serverError
    /// A 503 for the first request, then honest responses.
    case unavailableAtFirst
    /// A 503 for the second request, and honest responses otherwise.
    case unavailableOnResume

    // MARK: Redirects

    /// A redirect of range requests to a URL with the same bytes and `ETag`.
    case redirectsRange
    /// A redirect of range requests to a URL with different bytes and a different `ETag`; the URL ignores `If-Range`.
    case redirectsRangeToOtherEntity
    /// A redirect of range requests to a URL with different bytes and the same `ETag`.
    case redirectsRangeToEqualEntityTag
    /// A redirect of range requests to a URL that responds with 200 and different bytes.
    case redirectsRangeToWhole

    // MARK: Connections

    /// Most connections are closed normally before the `Content-Length` is reached.
    case cutAtContentLength
    /// Most connections are reset halfway through the response.
    case resets
    /// Most responses stop halfway with the connection open, so only a timeout ends them.
    case stalls
    /// Most connections are closed inside or between the chunks of the response.
    case cutInChunks
    /// The responses have neither `Content-Length` nor chunks, and most of them are truncated. A truncated 200 is
    /// acceptable, because nothing distinguishes it from a complete one (RFC 9112, section 6.3).
    case cutAtConnectionClose
    /// A 206 that ends after its head, as if the request had been a HEAD, although the connection stays open.
    case answersLikeHEAD
    /// Half of the connections are closed before the response head ("empty reply").
    case closesBeforeHead
    /// Half of the connections are reset before the response head.
    case resetsBeforeHead
    /// Half of the responses end inside their head.
    case cutInHead
    /// A 101 for a range request, followed by bytes of a different protocol.
    case switchesProtocols
    /// Bytes that are not HTTP, in response to a range request.
    case notHTTP
}
