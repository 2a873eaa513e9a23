import Foundation

// Top-level code belongs to the main actor, and a closure written here would trap on any other thread: nothing else
// stands in this file.
Tool.run(Array(CommandLine.arguments.dropFirst())).end()
