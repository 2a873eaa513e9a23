// Widgets on a display, for the tests: GTK needs the main thread of a process, and a process has one display.
//
//     WidgetProgram NAME [ARGUMENT…]   runs a scenario in GLib's main loop, and prints what it has seen as JSON
#if GTK
import CGTK
import ConvoyGTK
import Foundation

let arguments = Array(CommandLine.arguments.dropFirst())
if arguments.first == "reuse" { ObjectCounts.start() }
guard gtk_init_check() != 0 else {
    print("there is no display")
    exit(2)
}
MainLoop.install()
let loop = g_main_loop_new(nil, 0)
Task { @MainActor in
    do {
        let result = try await Scenario.run(arguments)
        let data = try JSONSerialization.data(withJSONObject: result, options: [.sortedKeys])
        print(String(decoding: data, as: UTF8.self))
        exit(0)
    } catch {
        print("failed: \(error)")
        exit(1)
    }
}
g_main_loop_run(loop)
#else
print("WidgetProgram needs the trait GTK")
#endif
