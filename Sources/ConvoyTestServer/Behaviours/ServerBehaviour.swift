/// The ways in which servers treat a client that resumes a download, right and wrong: the table for
/// `TestServer.route(_:behaving:size:seed:)`.
///
/// Whatever a server does, a client has to end with the right bytes or with an error. `outcomes` says what may come of
/// a download that is paused in its middle and resumed, `isHonest` where an error is a mistake of the client's, and
/// `isUndetectable` where not even the best client can know that the bytes are wrong.
public enum ServerBehaviour: String, CaseIterable, Sendable, Codable {
    // MARK: As RFC 9110 says

    /// A strong `ETag`, `If-Range` and `Range` evaluated, 206 and 416 as they should be.
    case honest
    /// The same with a `Last-Modified` years before `Date`, and no `ETag`.
    case honestByDate
    /// The same as `honest`, with the whole in chunks: the client is never told its length at first.
    case honestInChunks
    /// Chunks with trailer fields that look like validators, lengths and ranges (RFC 9110, section 6.5).
    case misleadingTrailers
    /// 103 responses before the 206, with an `ETag`, a `Content-Length` and a `Content-Range` of their own.
    case misleadingInterimResponses
    /// Always 200 and the whole, with `Accept-Ranges: none`.
    case ignoresRange
    /// No validator at all, and other bytes each time; a range is served when it is asked for.
    case noValidator
    /// A weak `ETag` that stays while the bytes change, which is what weak means; `If-Range` never matches it.
    case weakEntityTag
    /// Another representation with another `ETag` for each request.
    case changesBetweenRequests
    /// The same, each half as long as the one before.
    case shrinksBetweenRequests
    /// 206 with half of the range that was asked for and a right `Content-Range`, which a server may do.
    case partOfRange
    /// Every request is redirected to an honest URL.
    case redirectsAlways
    /// The whole as gzip with a strong `ETag`; ranges are of the encoded bytes.
    case gzip
    /// A gzip body of two members (RFC 1952, section 2.2).
    case gzipOfTwoMembers
    /// 203 in place of 200.
    case nonAuthoritative

    // MARK: Validators

    /// Another representation for each request, and `If-Range` ignored: a 206 of it, with its own `ETag`.
    case ignoresIfRange
    /// The same, with the whole in chunks.
    case ignoresIfRangeInChunks
    /// The same, with `Last-Modified` as the only validator.
    case ignoresIfRangeByDate
    /// The same, and the 206 has no `ETag` (RFC 9110, section 15.3.7 demands it).
    case partWithoutEntityTag
    /// The same with dates, and the 206 has no `Last-Modified`.
    case partWithoutLastModified
    /// A strong `ETag` on the 200, the same as a weak one on the 206 of other bytes.
    case partWithWeakEntityTag
    /// A 206 of something else, and says so by its `ETag`.
    case partWithOtherEntityTag
    /// Validators on the 206 only, and other bytes each time.
    case validatorsOnPartOnly
    /// A weak `ETag` that `If-Range` matches as if it were strong, and other bytes each time.
    case weakEntityTagTakenForStrong
    /// `w/"…"`, which is no entity tag, and other bytes each time.
    case lowercaseWeakEntityTag
    /// An `ETag` without quotes; the bytes stay.
    case unquotedEntityTag
    /// An `ETag` with a quote inside; the bytes stay.
    case quoteInsideEntityTag
    /// `ETag: ""`, which is a strong one; the bytes stay.
    case emptyEntityTag
    /// Two `ETag` fields, one of which never changes, and other bytes each time.
    case twoEntityTags
    /// `Last-Modified` changes, the strong `ETag` and the bytes stay.
    case lastModifiedChangesAlone
    /// `Last-Modified` is the second of the response, and the bytes change within it.
    case youngLastModified
    /// `Last-Modified` is after `Date`, and the bytes change.
    case futureLastModified
    /// An old `Last-Modified` that stays, no `Date`, and other bytes each time.
    case lastModifiedWithoutDate
    /// A `Last-Modified` that is no date, and other bytes each time.
    case unreadableLastModified
    /// Dates with years that no machine word holds, and other bytes each time.
    case overflowingDates
    /// One strong `ETag` that never changes, and other bytes each time.
    case entityTagNeverChanges
    /// One old `Last-Modified` that never changes, and other bytes each time.
    case lastModifiedNeverChanges

    // MARK: Ranges

    /// The range begins one byte before or after what was asked, and says so.
    case rangeOffByOne
    /// The right bytes under a `Content-Range` that begins one later.
    case contentRangeOffByOne
    /// Bytes from another offset under the `Content-Range` that was asked for.
    case bytesFromAnotherOffset
    /// The right bytes under a `Content-Range` with another complete length.
    case otherCompleteLength
    /// A 206 without a `Content-Range`.
    case noContentRange
    /// Two `Content-Range` fields that differ.
    case twoContentRanges
    /// A `Content-Range` that ends before it begins.
    case invertedContentRange
    /// A `Content-Range` without its unit.
    case contentRangeWithoutUnit
    /// A `Content-Range` in another unit than bytes.
    case otherRangeUnit
    /// A `Content-Range` with negative numbers.
    case negativeContentRange
    /// A `Content-Range` with numbers that no machine word holds.
    case overflowingContentRange
    /// `multipart/byteranges` for a single range.
    case multipartByteranges
    /// The same, with a `Content-Range` of the whole response.
    case multipartByterangesWithContentRange
    /// The whole as a 206 from its first byte.
    case wholeAsPart
    /// A 206 to a request that had no `Range`.
    case unaskedPart
    /// The whole at first; a 206 ever after, also to requests without `Range`.
    case unaskedPartLater
    /// 200 with no more than the rest.
    case restAsWhole

    // MARK: Lengths

    /// The whole in chunks; the 206 is half of what was asked, and says how long the whole is.
    case partOfPartAfterChunks
    /// The whole in chunks; the 206 is half of what was asked, of `*` bytes in all.
    case partOfPartWithUnknownTotal
    /// The whole in chunks; a right `Content-Range`, and the body ends early with the connection.
    case partCutAtConnectionClose
    /// The whole in chunks; a right `Content-Range`, and the chunks end early and in order.
    case partEndsEarlyInChunks
    /// The whole in chunks; a right `Content-Range`, and a `Content-Length` that is smaller and kept.
    case partWithSmallerContentLength
    /// A right `Content-Range` and body, and a `Content-Length` that is five bytes larger.
    case partWithLargerContentLength
    /// Five bytes more than the `Content-Range` says, and a `Content-Length` that counts them.
    case partWithExtraBytes
    /// The same, with the whole in chunks.
    case partWithExtraBytesAfterChunks
    /// Five bytes more than the `Content-Range` says, in chunks.
    case partWithExtraBytesInChunks
    /// A `Content-Length` that no machine word holds, on the 206.
    case overflowingContentLength
    /// Chunks, and a `Content-Length` of half the body beside them (RFC 9112, section 6.3).
    case contentLengthBesideChunks

    // MARK: Encodings

    /// Identity at first; to a `Range` the whole as gzip.
    case gzipAnswerToRange
    /// Identity at first; the 206 is of the gzip bytes, and says so.
    case gzipPart
    /// gzip at first; the 206 is of the identity bytes.
    case identityPartOfGzip
    /// The same with the gzip in chunks, under two `Content-Encoding` fields: `gzip`, then `identity`.
    case gzipThenIdentity
    /// `Transfer-Encoding: gzip, chunked`.
    case gzipTransferCoding
    /// A gzip body that stops early under a `Content-Length` that fits.
    case gzipCutShort
    /// A `Content-Encoding` that no client knows.
    case unknownContentEncoding

    // MARK: Statuses

    /// 416 with the true length, whatever is asked for.
    case alwaysUnsatisfiable
    /// 416 that gives what the client has as the complete length, though the client was told another.
    case unsatisfiableAtOffset
    /// The same where the client was told none: the whole came in chunks.
    case unsatisfiableAtOffsetAfterChunks
    /// 416 without a `Content-Range`.
    case unsatisfiableWithoutLength
    /// 204 to a `Range`.
    case noContent
    /// 200 with an empty body, and an `ETag` of its own, to a `Range`.
    case emptyWhole
    /// 304 to a `Range`.
    case notModified
    /// 412 to a `Range`.
    case preconditionFailed
    /// 410 to a `Range`.
    case gone
    /// 500 to a `Range`.
    case serverError
    /// 503 to the first request, honest then.
    case unavailableAtFirst
    /// 503 to the second request, honest otherwise.
    case unavailableOnResume

    // MARK: Redirects

    /// A `Range` is redirected to a URL with the same bytes and `ETag`.
    case redirectsRange
    /// A `Range` is redirected to a URL with other bytes and another `ETag`, which ignores `If-Range`.
    case redirectsRangeToOtherEntity
    /// A `Range` is redirected to a URL with other bytes and an equal `ETag`.
    case redirectsRangeToEqualEntityTag
    /// A `Range` is redirected to a URL that answers 200 with other bytes.
    case redirectsRangeToWhole

    // MARK: Connections

    /// Most answers are closed in order before their `Content-Length` is reached.
    case cutAtContentLength
    /// Most answers are reset in their middle.
    case resets
    /// Most answers stop in their middle, with the connection open: only a timeout ends them.
    case stalls
    /// Most answers, in chunks, are closed inside or between them.
    case cutInChunks
    /// Neither `Content-Length` nor chunks, and most answers are cut short: a cut 200 is a right answer then, because
    /// nothing tells it from a whole one (RFC 9112, section 6.3).
    case cutAtConnectionClose
    /// The head of a 206 with no body after it, as if the request had been a HEAD; the connection stays open.
    case answersLikeHEAD
    /// Half of the answers are closed before their head ("empty reply").
    case closesBeforeHead
    /// Half of the answers are reset before their head.
    case resetsBeforeHead
    /// Half of the answers end inside their head.
    case cutInHead
    /// 101 to a `Range`, with bytes of another protocol after it.
    case switchesProtocols
    /// Bytes that are not HTTP to a `Range`.
    case notHTTP
}
