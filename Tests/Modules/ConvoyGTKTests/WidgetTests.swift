import ConvoyTestSupport
import Foundation
import Testing

/// Widgets bound to requests, in a separate program on a virtual display.
@Suite(.serialized, .enabled(if: Programs.areRunnable, Programs.hint)) struct WidgetTests {
    @Test func `the main queue and the main actor share GLib's main loop`() throws {
        let seen = try Programs.run("loop")
        #expect(seen.number("posted") == 20)
        #expect(seen.isTrue("mainActor"))
        #expect(seen.isTrue("isInOrder"))
        #expect(seen.number("floods") > 1)
        // The inbox has 100 ms of work, in portions of 4 ms.
        #expect(seen.number("inboxTicks") >= 10)
        #expect(seen.isTrue("inboxIsInOrder"))
        #expect(seen.double("idleMilliseconds") < 30, "an idle loop keeps turning")
    }

    @Test func `spinners, bars, rows, alerts and texts follow their requests`() throws {
        let seen = try Programs.run("bindings")
        #expect(seen["spinsBefore"] as? Bool == false)
        #expect(seen.isTrue("spinsForSecond"), "the end of a replaced operation stops the spinner of the next")
        #expect(seen.number("livingSpinners") == 0)
        #expect(seen.isTrue("spinnerReleases"))
        #expect(seen.double("fractionWhileUnknown") == 0)
        #expect(seen.double("fractionAfterFailure") == 0)
        #expect(seen.double("fractionBeforeBatch") == 0)
        #expect(seen.number("rowsAfterEmptying") == 0)
        #expect(seen.number("alertsForTwo") == 1)
        #expect(seen.number("alertsForCancelled") == 0)
        #expect((seen["alertTitle"] as? String)?.isEmpty == false)
        #expect(
            seen["alertText"] as? String == "The request was not retried: the maximum number of retries was reached.",
            "\(seen["alertTitle"] ?? ""): \(seen["alertText"] ?? "")")
        #expect(seen["alertText of Not readable"] as? String == "Not readable")
        #expect(seen["alertText of Not read. It is empty."] as? String == "It is empty.")
        #expect(seen.number("eventLines") == 100)
        #expect(seen["firstEventLine"] as? String == "line 2900")
        #expect(seen["followsWhileScrolledAway"] as? Bool == false)
        #expect(seen.number("longestLine") <= 2001)
        #expect(seen.isTrue("hasReplacement"))
        #expect(seen.isTrue("hasBothLines"))
    }

    @Test func `assistive technologies are informed about loading and failed pictures`() throws {
        let seen = try Programs.run("accessibility", accessibility: "test")
        #expect(seen.isTrue("busyWhileLoading"))
        #expect(seen.isTrue("hasError"))
        #expect(seen.isTrue("isInvalid"))
        #expect(seen["hasErrorAfterSuccess"] as? Bool == false)
        // The alternative text is the program's.
        #expect(seen.isTrue("keepsTextAfterFailure"))
        #expect(seen.isTrue("keepsTextAfterSuccess"))
    }

    @Test func `a picture is shown from memory, fits its widget and is released with it`() throws {
        let seen = try Programs.run("pictures")
        #expect(seen.isTrue("isLoading"))
        #expect(seen.isTrue("hasIcon"))
        #expect(seen.number("decodedWidth") == 64)
        #expect(seen.isTrue("memoryHit"))
        #expect(seen.number("requests") == 1)
        #expect(seen["failureIcon"] as? String == "image-missing")
        #expect(seen.isTrue("isFading"))
        #expect(seen.number("mixtures") > 0)
        #expect(seen.isTrue("fadesWhileGrowing"), "a larger size stops the transition")
        #expect(seen.number("grownWidth") >= 500)
        #expect(seen.number("frames") == 2)
        #expect(seen.isTrue("restsWhileHidden"))
        #expect(seen["buttonPictures"] as? [Int] == [10, 11, 13, 12, 14])
        #expect(seen.number("livingPictures") == 0)
        #expect(seen.number("callsAfterRelease") == 0)
    }

    @Test func `a placeholder icon follows the style and stays in the centre`() throws {
        let seen = try Programs.run("style")
        #expect(seen.isTrue("isLightInDark"))
        #expect(seen.isTrue("isDarkInLight"))
        #expect(seen.isTrue("isLightAgain"))
        let centre = try #require(seen["centre"] as? [Int])
        #expect(centre.count == 2 && centre.allSatisfy { (90...110).contains($0) }, "\(centre)")
    }

    @Test func `a picture has the pixels that its widget needs, and the same work is done only once`() throws {
        let seen = try Programs.run("sizes")
        #expect(seen.number("grownWidth") >= 500)
        #expect(seen.number("grownCalls") == 1, "decoding again calls no completion")
        #expect(seen.isTrue("isFill"))
        #expect(seen.isTrue("prefetchHit"))
        #expect((150..<900).contains(seen.number("longerSide")))
        #expect(seen.number("prefetchWidth") == seen.number("longerSide"))
        #expect(seen.number("prefetchRequests") == 2)
        #expect(seen.isTrue("keepsOwnSize"))
        #expect(seen.number("naturalHits") == 3)
        #expect(seen.number("naturalRequests") == 2)
        #expect(seen.isTrue("keepsPlaceholder"))
        #expect(seen.number("repeatedRequests") == 1)
        #expect(seen["repeatedCalls"] as? [Int] == [9])
    }

    @Test func `an animation follows the clock if the main loop is busy`() throws {
        let seen = try Programs.run("clock")
        #expect(seen.number("frames") == 100)
        // The animation takes 2 s. With a fifth of the main loop, showing each frame would take at least 4 s.
        #expect(seen.double("seconds") < 3)
    }

    @Test func `a reused cell never shows another picture, and nothing leaks`() throws {
        let count = ProcessInfo.processInfo.environment["CONVOY_REUSES"].flatMap { Int($0) } ?? 2_000
        let seen = try Programs.run("reuse", "\(count)", timeout: 600)
        #expect(seen.number("looks") > count)
        #expect(seen.number("wrong") == 0)
        #expect(seen.number("settled") == 3 * 40)
        #expect(seen.number("completions") > 120)
        #expect(seen.number("living") == 0)
        let descriptors = try #require(seen["descriptors"] as? [Int])
        #expect(descriptors[2] <= descriptors[0] + 4, "\(descriptors)")
        let allocated = try #require(seen["allocated"] as? [Int])
        #expect(allocated[2] - allocated[1] < 1 << 20, "\(allocated)")
        let objects = try #require(seen["objects"] as? [Int])
        #expect(objects.count == 3 && objects[0] > 100)
        #expect(seen["grownObjects"] as? [String: Int] == [:], "\(objects)")
    }

    @Test func `the main loop stays responsive while a thousand pictures scroll`() throws {
        let count = ProcessInfo.processInfo.environment["CONVOY_PICTURES"] ?? "1000"
        let seen = try Programs.run("scroll", count, timeout: 300)
        #expect(seen.number("wrong") == 0)
        #expect(seen.number("finished") > 100)
        // The duration of a frame depends on the machine, so compare the longest callback with the total.
        #expect(seen.double("longestMilliseconds") < seen.double("totalMilliseconds") / 30)
        if ProcessInfo.processInfo.environment["CONVOY_QUIET_MACHINE"] == "1" {
            #expect(seen.double("longestMilliseconds") < 8)
            #expect(seen.double("longestByClock") < 8)
        }
        // The limit includes images being decoded, GTK's own drawings, and memory that has not been returned yet.
        #expect(seen.number("grownKilobytes") < seen.number("cacheKilobytes") + (128 << 10))
        print("scrolling \(count) pictures: \(seen)")
    }
}
